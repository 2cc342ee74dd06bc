"""Queries about an event, lifted to many events."""

import pytest

from recall.query.bind import PhysicalTables
from recall.query.lift import EventScope, QueryInputs, TableBindings, lift_query
from recall.query.parsing import Unsupported
from recall.query.shape import Tables

TABLES = Tables(
    {"cpu": "ts", "ping": "at"},
    frozenset({"hosts"}),
    {
        "load": "SELECT host, window.end AS ts, avg(cpu) AS cpu FROM cpu "
        "GROUP BY host, window(ts, '5 minutes')"
    },
)
SCOPE = EventScope(TABLES, ("host",))
BINDINGS = TableBindings(
    PhysicalTables({"cpu": "cpu", "ping": "ping", "hosts": "hosts"}),
    PhysicalTables({"cpu": "cpu"}),
    "pending",
)


def read_inputs(sql: str) -> QueryInputs:
    return lift_query(sql, SCOPE, BINDINGS).inputs


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT event.nothing AS x FROM cpu", "no attribute 'nothing'; available: eid, host, ts"),
        ("SELECT host FROM elsewhere", "unknown table"),
        ("SELECT host FROM cpu NATURAL JOIN hosts", "USING"),
        ("SELECT host FROM cpu, LATERAL (SELECT 1 AS x FROM ping)", "name the subquery"),
        ("SELECT host FROM cpu LIMIT 3 OFFSET host", "LIMIT and OFFSET must be numbers"),
        ("SELECT DISTINCT host FROM cpu ORDER BY cpu LIMIT 3", "must name outputs"),
        ("SELECT *, count(*) AS n FROM cpu GROUP BY ALL", "name the columns"),
        ("SELECT host FROM cpu AS event", "reserved for the new event"),
        ("SELECT a.host FROM cpu AS a(ts, host)", "column names in a table alias"),
        ("SELECT a.host FROM (SELECT ts, host FROM cpu) AS a(host, ts)", "column names in a table"),
    ],
)
def test_unsupported_queries_are_rejected_with_a_reason(sql: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        lift_query(sql, SCOPE, BINDINGS)


def test_inputs_of_derived_streams_reach_back_by_the_window() -> None:
    inputs = read_inputs("SELECT cpu FROM load WHERE host = event.host")
    assert inputs.streams == frozenset()
    assert inputs.derived == {"cpu"}
    assert inputs.reach == 300_000_000


def test_equality_with_an_attribute_filters_the_stream() -> None:
    inputs = read_inputs("SELECT cpu FROM cpu c WHERE c.host = event.host")
    assert inputs.attribute_filters == (("cpu", "host", "host"),)


def test_equality_of_one_of_two_reads_does_not_filter_the_stream() -> None:
    inputs = read_inputs(
        "SELECT a.cpu AS x FROM (SELECT cpu FROM cpu WHERE host = event.host) a "
        "JOIN (SELECT cpu FROM cpu) b ON a.cpu = b.cpu"
    )
    assert inputs.attribute_filters == ()


def test_limit_counts_for_each_event() -> None:
    sql = lift_query("SELECT host FROM cpu ORDER BY cpu LIMIT 2", SCOPE, BINDINGS).sql
    assert "ROW_NUMBER() OVER (PARTITION BY `cpu`.`_eid` ORDER BY cpu)" in sql
    assert "WHERE _row <= 2" in sql


def test_aggregate_without_groups_has_a_row_for_each_event() -> None:
    sql = lift_query("SELECT count(*) AS n FROM cpu", SCOPE, BINDINGS).sql
    assert "FROM pending AS _p LEFT JOIN" in sql
    assert "GROUP BY `_p`.`_eid`" in sql


def test_time_range_is_not_checked_if_all_rows_are_in_range() -> None:
    checked = lift_query("SELECT host FROM cpu", SCOPE, BINDINGS).sql
    unchecked = lift_query("SELECT host FROM cpu", SCOPE, BINDINGS, rows_in_range=True).sql
    assert "`_low`" in checked
    assert "`_low`" not in unchecked


def test_offset_counts_for_each_event() -> None:
    sql = lift_query("SELECT host FROM cpu ORDER BY cpu LIMIT 2 OFFSET 3", SCOPE, BINDINGS).sql
    assert "WHERE _row > 3 AND _row <= 5" in sql


def test_full_join_has_the_event_of_either_side() -> None:
    sql = lift_query("SELECT a.x FROM cpu a FULL JOIN ping b ON a.x = b.x", SCOPE, BINDINGS).sql
    assert "ON a.x = b.x AND `b`.`_eid` = `a`.`_eid`" in sql
    assert "COALESCE(`a`.`_eid`, `b`.`_eid`) AS `_eid`" in sql


def test_right_join_has_the_event_of_its_right_side() -> None:
    sql = lift_query("SELECT a.x FROM cpu a RIGHT JOIN ping b ON a.x = b.x", SCOPE, BINDINGS).sql
    assert "`b`.`_eid` AS `_eid`" in sql


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.x FROM cpu a WHERE a.y > 3 OR EXISTS (SELECT 1 FROM ping b WHERE b.x = a.x)",
        "SELECT a.x, (SELECT max(b.y) FROM ping b WHERE b.x = a.x) AS y FROM cpu a",
        "SELECT a.x FROM cpu a WHERE (a.x, 1) NOT IN (SELECT b.x, b.y FROM ping b)",
        "SELECT a.x, l.y FROM cpu a, LATERAL (SELECT b.y FROM ping b WHERE b.x = a.x) l",
    ],
)
def test_subquery_reads_the_rows_of_its_event(query: str) -> None:
    lifted = lift_query(query, SCOPE, BINDINGS)
    assert "`b`.`_eid` = `a`.`_eid`" in lifted.sql
    assert lifted.inputs.streams == {"cpu", "ping"}


def test_subquery_beside_an_aggregate_is_evaluated_after_it() -> None:
    query = "SELECT count(*) AS n, (SELECT max(b.y) FROM ping b) AS y FROM cpu a"
    sql = lift_query(query, SCOPE, BINDINGS).sql
    assert "SELECT _g._g0 AS n, (SELECT MAX(b.y) FROM" in sql


def test_grouping_sets_have_the_event_in_each() -> None:
    for group in ("ROLLUP (host, cpu)", "host, cpu WITH ROLLUP"):
        query = f"SELECT host, cpu, count(*) AS n FROM cpu GROUP BY {group}"
        sql = lift_query(query, SCOPE, BINDINGS).sql
        assert "`cpu`.`_event_host`, ROLLUP (host, cpu)" in sql
