"""Queries of the values with the most rows: the query with groups that they stand for, and refusals."""

import pytest

from recall.query.parsing import Unsupported, parse
from recall.query.row_keys import row_key_columns
from recall.query.top_values import expand_top, find_top


def test_top_stands_for_a_query_with_groups() -> None:
    query = parse("SELECT top(f.src, 3) FROM flows f WHERE f.dst = event.dst")
    assert find_top(query) == 3
    assert expand_top(query).sql("spark") == (
        "SELECT f.src AS `src`, COUNT(*) AS at_least, COUNT(*) AS at_most, BOOL_AND(TRUE) AS certain"
        " FROM flows AS f WHERE f.dst = event.dst GROUP BY f.src"
        " ORDER BY COUNT(*) DESC, f.src LIMIT 3"
    )
    named = expand_top(parse("SELECT top(lower(src), 100) AS source FROM flows"))
    assert named.named_selects == ["source", "at_least", "at_most", "certain"]
    assert row_key_columns("SELECT top(src, 2) FROM flows") == ("src",)


def test_other_queries_stay_as_they_are() -> None:
    query = parse("SELECT max(top) AS top FROM s")
    assert find_top(query) is None
    assert expand_top(query) is query


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT top(src, 3), count(*) FROM s", "without other outputs"),
        ("SELECT top(src, 3) + 1 FROM s", "without other outputs"),
        ("SELECT top(src, 3) FROM s GROUP BY dst", "without other outputs"),
        ("SELECT * FROM (SELECT top(src, 3) FROM s) AS t LIMIT 3", "without other outputs"),
        ("SELECT top(src) FROM s", "takes a column and a number"),
        ("SELECT top(src, 0) FROM s", "between 1 and 100"),
        ("SELECT top(src, 101) FROM s", "between 1 and 100"),
        ("SELECT top(src, k) FROM s", "between 1 and 100"),
        ("SELECT top(lower(src), 3) FROM s", "AS name"),
    ],
)
def test_other_forms_are_refused(sql: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        expand_top(parse(sql))
