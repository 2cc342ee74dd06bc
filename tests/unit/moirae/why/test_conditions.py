"""Conditions of event queries, and queries without them."""

import pytest

from moirae.why.conditions import (
    find_operands,
    format_sql,
    list_conditions,
    list_selects,
    remove_conditions,
)
from recall.query import PhysicalTables, Tables, bind_query, parse

TABLES = Tables(
    {"a": "ts", "b": "ts"},
    frozenset({"hosts"}),
    {
        "load": "SELECT host, window.end AS ts, avg(v) AS v FROM a WHERE v > 0 "
        "GROUP BY host, window(ts, '1 minute') HAVING count(*) > 2"
    },
)
PHYSICAL = PhysicalTables({"a": "in_a", "b": "in_b", "hosts": "relation_hosts"})


def bind(sql: str) -> object:
    return bind_query(sql, TABLES, PHYSICAL)


@pytest.mark.parametrize(
    ("sql", "conditions"),
    [
        ("SELECT ts FROM a", []),
        (
            "SELECT ts FROM a WHERE v > 1 AND (host = 'x' AND NOT n < 2)",
            [
                ("expr", "where", "v > 1"),
                ("expr", "where", "host = 'x'"),
                ("expr", "where", "NOT n < 2"),
            ],
        ),
        ("SELECT ts FROM a WHERE v > 1 OR v < 0", [("expr", "where", "v > 1 OR v < 0")]),
        (
            "SELECT host, ts FROM load WHERE v > 9",
            [
                ("load", "where", "v > 0"),
                ("load", "having", "COUNT(*) > 2"),
                ("expr", "where", "v > 9"),
            ],
        ),
        (
            "WITH c AS (SELECT ts FROM a WHERE v > 1) SELECT ts FROM c WHERE TRUE",
            [
                ("c", "where", "v > 1"),
                ("expr", "where", "TRUE"),
            ],
        ),
        (
            "SELECT ts FROM a WHERE v = 1 UNION ALL SELECT ts FROM b WHERE v = 2",
            [
                ("expr", "where", "v = 1"),
                ("expr", "where", "v = 2"),
            ],
        ),
        # Conditions on versions of relations are not the author's.
        (
            "SELECT a.ts FROM hosts h JOIN a ON a.host = h.host WHERE a.v > 1",
            [
                ("expr", "where", "a.v > 1"),
            ],
        ),
    ],
)
def test_conditions_are_listed_in_the_order_of_evaluation(
    sql: str, conditions: list[tuple[str, str, str]]
) -> None:
    listed = list_conditions(bind(sql))  # type: ignore[arg-type]
    assert [(node.stage, node.clause, node.text) for node in listed] == conditions


def test_removed_condition_is_true_and_the_others_stay() -> None:
    query = bind_query("SELECT ts FROM a WHERE v > 1 AND n > 2", TABLES, PHYSICAL)
    before = query.sql(dialect="spark")
    assert "TRUE AND n > 2" in format_sql(remove_conditions(query, [0]))
    assert "TRUE AND TRUE" in format_sql(remove_conditions(query, [0, 1]))
    assert query.sql(dialect="spark") == before
    assert [stage.name for stage in list_selects(query)] == ["expr"]


@pytest.mark.parametrize(
    ("condition", "operands"),
    [
        ("v * 2 > 70", ["v * 2"]),
        ("v > w", ["v", "w"]),
        ("NOT (v > 1)", ["v"]),
        ("v IS NULL", ["v"]),
        ("v BETWEEN 1 AND 2", ["v"]),
        ("host IN ('a', 'b')", ["host"]),
        ("host LIKE 'a%'", ["host"]),
        ("v > 1 OR w < 2 OR v < 0", ["v", "w"]),
        ("count(*) > 2", ["COUNT(*)"]),
        ("my_agg(v) > 2", ["MY_AGG(v)"]),
    ],
)
def test_operands_are_what_a_condition_compares(condition: str, operands: list[str]) -> None:
    node = parse(f"SELECT 1 WHERE {condition}").args["where"].this
    assert list(map(format_sql, find_operands(node))) == operands
