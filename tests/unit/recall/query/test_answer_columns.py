import pytest

from recall.query.answer_columns import COVERAGE_TYPES, coverage_columns, named_columns
from recall.query.parsing import parse

AVAILABLE = {"norm": coverage_columns(["host", "n"], ["n"]), "other": dict(COVERAGE_TYPES)}


def test_own_columns_hide_those_of_coverage() -> None:
    columns = coverage_columns(["n", "Final", "n_low"], ["n"])
    assert list(columns) == ["coverage", "covered_from", "covered_to", "n_estimate", "n_high"]


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT * FROM norm", {}),
        ("SELECT n, coverage FROM norm", {"norm": ["coverage"]}),
        ("SELECT round(coverage, 2) AS coverage FROM norm", {"norm": ["coverage"]}),
        ("SELECT n / 2 AS final FROM norm HAVING final > 1", {}),
        ("SELECT a.N_LOW FROM norm AS a", {"norm": ["n_low"]}),
        ("SELECT s.final FROM norm n JOIN s ON s.host = n.host", {}),
        ("SELECT final FROM norm n JOIN s ON s.host = n.host", {}),
        (
            "SELECT n.final FROM norm n JOIN other o ON o.coverage = n.coverage",
            {"norm": ["coverage", "final"], "other": ["coverage"]},
        ),
        ("WITH norm AS (SELECT 1 AS final) SELECT final FROM norm", {}),
        ("SELECT x FROM (SELECT max(covered_to) AS x FROM norm) t", {"norm": ["covered_to"]}),
    ],
)
def test_columns_that_a_query_names(sql: str, named: dict[str, list[str]]) -> None:
    found = named_columns(parse(sql), AVAILABLE)
    assert {table: sorted(columns) for table, columns in found.items()} == named
