"""Notations that stand for others: WINDOW clauses, VALUES in FROM."""

import pytest

from recall.query.parsing import Unsupported, parse


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT rank() OVER w AS r, max(x) OVER (p) AS m FROM t "
            "WINDOW p AS (PARTITION BY a), W AS (PARTITION BY a ORDER BY b)",
            "SELECT RANK() OVER (PARTITION BY a ORDER BY b) AS r, MAX(x) OVER (PARTITION BY a) AS m "
            "FROM t",
        ),
        (
            "SELECT s.r FROM (SELECT rank() OVER w AS r FROM t WINDOW w AS (ORDER BY a)) s",
            "SELECT s.r FROM (SELECT RANK() OVER (ORDER BY a) AS r FROM t) AS s",
        ),
        (
            "SELECT count(*) AS n FROM t GROUP BY window(ts, '1 hour')",
            "SELECT COUNT(*) AS n FROM t GROUP BY WINDOW(ts, '1 hour')",
        ),
        ("SELECT window FROM t AS window", "SELECT window FROM t AS window"),
        (
            "SELECT a.x FROM (VALUES (1, 'p'), (2, 'q')) AS a(x, y)",
            "SELECT a.x FROM (SELECT 1 AS `x`, 'p' AS `y` UNION ALL SELECT 2 AS `x`, 'q' AS `y`) AS a",
        ),
        (
            "SELECT * FROM t JOIN (VALUES 1, 2) v ON v.col1 = t.x",
            "SELECT * FROM t JOIN (SELECT 1 AS `col1` UNION ALL SELECT 2 AS `col1`) AS v "
            "ON v.col1 = t.x",
        ),
    ],
)
def test_notation_is_replaced(sql: str, expected: str) -> None:
    assert parse(sql).sql(dialect="spark") == expected


def test_unknown_window_is_refused_with_its_place() -> None:
    with pytest.raises(Unsupported, match="unknown window 'u'") as refused:
        parse("SELECT a,\n rank() OVER u AS r FROM t WINDOW w AS (ORDER BY a)")
    assert refused.value.line == 2
