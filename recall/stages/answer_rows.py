"""The rows of answers with what they were computed from, see `recall.query.answer_columns`. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

from archiver.times import Micros, format_micros
from recall.query import ESTIMATE_SUFFIXES

Rows = Sequence[Mapping[str, Any]]


def add_coverage(
    rows: Rows, coverage: Mapping[str, Any] | None, estimates: Rows | None
) -> list[dict[str, Any]]:
    """Rows with columns for the coverage and the estimates of their answer, in their stored forms.

    Columns of the rows hide those of their names. `estimates`: of each row; None or empty: none has
    any.
    """
    if coverage is None:
        return list(map(dict, rows))
    common = {
        "coverage": coverage.get("share"),
        "covered_from": _format_time(coverage.get("read_from")),
        "covered_to": _format_time(coverage.get("read_to")),
        "final": coverage.get("final"),
    }
    covered_rows = []
    for number, row in enumerate(rows):
        values = dict(common)
        row_estimates = estimates[number] if estimates else {}
        for name, estimate in row_estimates.items():
            for suffix, bound in ESTIMATE_SUFFIXES.items():
                values[f"{name}{suffix}"] = estimate[bound]
        covered_rows.append({**values, **row})
    return covered_rows


def _format_time(micros: Micros | None) -> str | None:
    """An event time as Spark writes it in JSON."""
    if micros is None:
        return None
    return format_micros(micros)
