"""Parsing of queries, and the columns of answers."""

import pytest

from recall.query.parsing import (
    Unsupported,
    count_parsed_texts,
    find_tables_reached,
    order_columns,
    parse,
    tables_in,
    tables_used,
)


@pytest.mark.parametrize(
    ("sql", "message", "line"),
    [
        ("SELECT 1; DROP VIEW events", "expected a single SELECT statement", 1),
        ("SET x = 1", "expected a single SELECT statement", 1),
        ("SELECT a FROM t\nWHERE (a > 1", "SQL syntax error: Expecting )", 2),
        ("SELECT id, ts FROM events |> LIMIT 1", "SQL syntax error", 1),
        ("SELECT " + " + ".join(["1"] * 300), "SQL is nested deeper than 250 levels", 1),
    ],
)
def test_anything_but_one_query_is_rejected(sql: str, message: str, line: int) -> None:
    with pytest.raises(Unsupported) as rejection:
        parse(sql)
    assert str(rejection.value).startswith(message)
    assert rejection.value.line == line


def test_window_is_a_function_name() -> None:
    query = parse("SELECT max(ts) AS ts FROM t GROUP BY window(ts, '1 minute')")
    assert query.args["group"].expressions[0].sql("spark") == "WINDOW(ts, '1 minute')"


def test_tables_are_found_in_lower_case() -> None:
    sql = "WITH c AS (SELECT * FROM CPU) SELECT * FROM c JOIN (SELECT * FROM Hosts) h ON true"
    assert tables_in(sql) == {"c", "cpu", "hosts"}
    assert tables_used(sql, ["hosts", "ping"]) == {"hosts"}


def test_tables_are_reached_through_derived_streams() -> None:
    derived = {
        "calm": "SELECT ts FROM Busy JOIN hosts",
        "busy": "SELECT ts FROM cpu, calm",
        "damaged": "SELECT (",
        "other": "SELECT ts FROM logs",
    }
    assert find_tables_reached(["calm"], derived) == {"calm", "busy", "hosts", "cpu"}
    assert find_tables_reached(["damaged", "x"], derived) == {"damaged", "x"}


def test_columns_of_answers_are_in_the_order_of_the_select_list() -> None:
    stored = [{"extra": 0, "n": 1, "mean": 2.0, "COUNT(DISTINCT h)": 3}]
    (row,) = order_columns("SELECT avg(x) AS mean, count(DISTINCT h), count(*) AS n FROM s", stored)
    assert list(row) == ["mean", "COUNT(DISTINCT h)", "n", "extra"]


def test_a_text_is_parsed_once() -> None:
    sql = "SELECT avg(x) AS mean FROM parsed_once"
    before = count_parsed_texts()
    for _ in range(3):
        parse(sql)
        assert tables_used(sql, ["parsed_once"])
        order_columns(sql, [{"mean": 1.0}])
    assert count_parsed_texts() == before + 1


def test_a_changed_tree_changes_no_later_one() -> None:
    sql = "SELECT x FROM changed_tree WHERE x > 1"
    parse(sql).set("where", None)
    assert parse(sql).sql("spark") == sql
