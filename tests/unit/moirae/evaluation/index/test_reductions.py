"""What rows need for queries that are more than a filter."""

import pytest

from moirae.evaluation.index.anchors import describe
from moirae.evaluation.index.reductions import find_necessary
from moirae.evaluation.index.values import RowLayout
from recall.query.parsing import parse

LAYOUTS = {"s": RowLayout({"ts": "timestamp", "host": "string", "t": "string", "n": "int"})}
WINDOW = "GROUP BY host, window(ts, '1 minute')"


def _describe(sql: str) -> str | None:
    needs = find_necessary(parse(sql), LAYOUTS)
    return None if needs is None else describe(needs[1])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT host, count(*) FROM s WHERE t LIKE '%x%' {WINDOW}", "t contains 'x'"),
        ("SELECT s.ts, r.a FROM s JOIN r ON s.host = r.host WHERE s.t = 'x'", "t equals 'x'"),
        ("SELECT s.ts, r.a FROM s JOIN r ON s.host = r.host AND s.n > 3", "n >= 3.0"),
        (
            "SELECT s.ts FROM r JOIN s ON s.host = r.host WHERE t = 'x' AND r.t = 'y'",
            "t equals 'x'",
        ),
        ("SELECT s.ts FROM s LEFT ANTI JOIN r ON s.host = r.host WHERE n = 3", "n = 3"),
        ("SELECT ts, md5(t) FROM s WHERE md5(t) = 'x' AND t = 'y'", "t equals 'y'"),
        ("SELECT ts FROM s WHERE NOT (md5(t) = 'x' OR n < 3)", "n >= 3.0"),
        ("SELECT ts FROM (SELECT * FROM s WHERE t = 'x') AS d WHERE n > 1", "t equals 'x'"),
        (f"SELECT ts, c FROM (SELECT host, count(*) AS c FROM s WHERE n = 1 {WINDOW}) d", "n = 1"),
    ],
)
def test_rows_need_what_follows_from_where(sql: str, expected: str) -> None:
    assert _describe(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ts FROM s",
        "SELECT ts FROM s WHERE md5(t) = 'x' OR t = 'y'",
        "SELECT count(*) AS c, max(ts) AS ts FROM s WHERE t = 'x'",
        "SELECT r.a FROM r LEFT JOIN s ON r.host = s.host WHERE s.t = 'x'",
        "SELECT r.a FROM r LEFT ANTI JOIN s ON r.host = s.host WHERE t = 'x'",
        "SELECT s.ts FROM s JOIN s AS b ON s.host = b.host WHERE s.t = 'x'",
        "SELECT s.ts FROM s JOIN r ON s.host = r.host WHERE r.t = 'x'",
        "SELECT s.ts FROM s FULL OUTER JOIN r ON s.host = r.host WHERE s.t = 'x'",
        "SELECT ts FROM s WHERE t = 'x' UNION ALL SELECT ts FROM r",
    ],
)
def test_other_queries_need_all_rows(sql: str) -> None:
    assert _describe(sql) is None
