"""Plain expressions that say the same as others: on rows, NULL and special values included."""

import duckdb
import pytest

from moirae.lints.rewrites import rewrite
from recall.query import parse

PAIRS = [
    ("v <=> 5", "(v = 5 AND NOT v IS NULL)"),
    ("v IS DISTINCT FROM 5", "(v <> 5 OR v IS NULL)"),
    ("isnull(host)", "host IS NULL"),
    ("isnotnull(host)", "NOT host IS NULL"),
    ("startswith(host, 'a')", "host LIKE 'a%'"),
    ("endswith(host, 'b')", "host LIKE '%b'"),
    ("contains(host, 'b')", "host LIKE '%b%'"),
    ("instr(host, 'b') > 0", "host LIKE '%b%'"),
    ("locate('b', host) > 0", "host LIKE '%b%'"),
    ("host RLIKE '^ab'", "host LIKE 'ab%'"),
    ("host RLIKE 'b'", "host LIKE '%b%'"),
    ("substring(host, 1, 2) = 'ab'", "host LIKE 'ab%'"),
    ("left(host, 2) = 'ab'", "host LIKE 'ab%'"),
    ("array_contains(array('a', 'b'), host)", "host IN ('a', 'b')"),
    ("coalesce(v, 0) > 1", "(v > 1 AND NOT v IS NULL)"),
    ("nvl(v, 9) > 1", "(v > 1 OR v IS NULL)"),
    ("abs(v) > 3", "(v > 3 OR v < -3)"),
]
UNCHANGED = [
    "v > 5",
    "v <=> w",
    "startswith(host, 'a%')",
    "startswith(host, site)",
    "host RLIKE '^a.c'",
    "host RLIKE 'a$'",
    "substring(host, 2, 2) = 'ab'",
    "substring(host, 1, 3) = 'ab'",
    "left(host, 2) = ''",
    "locate('b', host, 3) > 0",
    "instr(host, 'b') > 1",
    "coalesce(v, w) > 1",
    "abs(v) > w",
    "abs(v) < 3",
]


def render(condition: str) -> str | None:
    rewritten = rewrite(parse(f"SELECT 1 WHERE {condition}").args["where"].this)
    return None if rewritten is None else str(rewritten.sql(dialect="spark"))


@pytest.mark.parametrize(("condition", "plain"), PAIRS)
def test_equal_plain_condition_is_found(condition: str, plain: str) -> None:
    assert render(condition) == plain
    combined = render(f"NOT ({condition}) AND v > 5")
    assert combined is not None
    assert combined.endswith("AND v > 5")


@pytest.mark.parametrize("condition", UNCHANGED)
def test_other_conditions_stay(condition: str) -> None:
    assert render(condition) is None


def test_rewritten_conditions_hold_for_the_same_rows() -> None:
    rows = (
        "(VALUES (5.0, 'ab'), (-5.0, 'b'), (0.0, ''), (NULL, NULL), (2.0, 'xaby'), "
        "('NaN'::DOUBLE, 'a')) AS t(v, host)"
    )
    # In DuckDB, which has no isnull, locate or RLIKE.
    for condition, _ in PAIRS:
        if any(name in condition for name in ("isn", "locate", "RLIKE", "nvl")):
            continue
        node = parse(f"SELECT 1 WHERE {condition}").args["where"].this
        rewritten = rewrite(node)
        assert rewritten is not None
        before, after = node.sql(dialect="duckdb"), rewritten.sql(dialect="duckdb")
        verdicts = duckdb.sql(f"SELECT ({before}), ({after}) FROM {rows}").fetchall()
        assert [row[0] for row in verdicts] == [row[1] for row in verdicts], condition
