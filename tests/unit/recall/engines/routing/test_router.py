"""Which engine runs a query, and why."""

import re
from dataclasses import replace
from unittest.mock import Mock
from uuid import UUID

import pytest

from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter, explain_engine
from recall.engines.template import PartialQuery, Template
from recall.errors import ExecutorsAway
from recall.requests import Piece, RecallEvent, SqlQuestion

COLUMNS = {
    "s": {"ts": "timestamp", "host": "string", "v": "double", "n": "bigint", "d": "decimal(9,2)"}
}


def template(sql: str, attributes: dict[str, str] | None = None) -> Template:
    kinds = attributes or {"host": "string"}
    return Template(SqlQuestion(None, 1.0, "newest", sql, {"s": "ts"}, ("r",), {}, kinds, {}, {}))


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT s.d AS v FROM s LIMIT 3", "column d of an unsupported type"),
        ("SELECT count(*) AS n FROM s JOIN r ON r.host = s.host", "relations"),
        ("SELECT count(*) AS n FROM (SELECT * FROM s) s", "subqueries"),
        ("SELECT sum(s.d) AS n FROM s", "column d of an unsupported type"),
        ("SELECT median(s.v) AS n FROM s", "ARRAY_AGG|lists of values|COLLECT_LIST"),
        ("SELECT count(DISTINCT s.v) AS n FROM s", "DISTINCT of an expression"),
        (
            "SELECT count(*) AS n FROM s GROUP BY s.v + 1",
            "GROUP BY of a constant or a floating-point number",
        ),
        ("SELECT count(*) AS n FROM s WHERE upper(s.host) = 'A'", "UPPER"),
    ],
)
def test_query_that_needs_spark_has_a_reason(sql: str, reason: str) -> None:
    decision = explain_engine(template(sql), COLUMNS, "auto")
    assert decision.engine == "spark"
    assert re.search(reason, decision.reason), decision.reason


def test_setting_decides_for_a_portable_query() -> None:
    sql = (
        "SELECT avg(s.v) AS mean, count(DISTINCT s.host) AS n FROM s"
        " WHERE s.host LIKE 'a%' AND s.n BETWEEN 1 AND 3"
    )
    assert explain_engine(template(sql), COLUMNS, "auto").engine == "either"
    assert explain_engine(template(sql), COLUMNS, "local").engine == "local"
    assert explain_engine(template(sql), COLUMNS, "spark").engine == "spark"
    assert (
        "attribute at of type timestamp"
        in explain_engine(template(sql, {"at": "timestamp"}), COLUMNS, "auto").reason
    )


def test_setting_spark_excludes_the_local_engine_from_shared_scans() -> None:
    spark, local = Mock(), Mock()
    spark.list_files.return_value = ()
    spark.compute_partial.return_value = {}
    router = EngineRouter(spark, local, PartialCache(), setting="spark")
    assert not router.choice.allows_duckdb
    queries = []
    for number in (1, 2):
        event = RecallEvent(UUID(int=number), 100, {}, {"host": "a"})
        query = template(f"SELECT count(*) AS n FROM s WHERE s.n = {number}")
        queries.append(PartialQuery(query, [(event, Piece(0, None, 100))], {}))
    assert router.compute_partials(queries) == [{}, {}]
    assert spark.compute_partial.call_count == 2
    assert local.mock_calls == []


def test_without_executors_the_local_engine_runs_what_it_supports() -> None:
    spark, local = Mock(), Mock()
    spark.list_files.return_value = ()
    local.supports.return_value = True
    local.estimate_megabytes.return_value = 1.0
    local.compute_partials.return_value = [{}]
    is_away = True
    router = EngineRouter(spark, local, PartialCache(), setting="spark")
    router.are_executors_away = lambda: is_away
    event = RecallEvent(UUID(int=1), 100, {}, {"host": "a"})
    query = PartialQuery(
        template("SELECT count(*) AS n FROM s"), [(event, Piece(0, None, 100))], {}
    )
    assert router.compute_partials([query]) == [{}]
    assert local.compute_partials.call_count == 1
    spark.compute_partial.assert_not_called()
    # What it does not support is left to Spark, which tells that it has no executors.
    local.supports.return_value = False
    spark.compute_partial.side_effect = ExecutorsAway
    other = template("SELECT count(*) AS rows FROM s")
    with pytest.raises(ExecutorsAway):
        router.compute_partials([replace(query, template=other)])
    is_away = False
    assert not router.choice.allows_duckdb


def test_query_that_finds_no_executors_is_run_here() -> None:
    spark, local = Mock(), Mock()
    spark.list_files.return_value = ()
    spark.compute_partial.side_effect = ExecutorsAway
    local.estimate_megabytes.return_value = 1.0
    local.compute_partials.return_value = [{}]
    are_away = Mock(side_effect=lambda: spark.compute_partial.called)
    router = EngineRouter(spark, local, PartialCache(), setting="spark")
    router.are_executors_away = are_away
    event = RecallEvent(UUID(int=1), 100, {}, {"host": "a"})
    query = PartialQuery(
        template("SELECT count(*) AS n FROM s"), [(event, Piece(0, None, 100))], {}
    )
    assert router.compute_partials([query]) == [{}]
    spark.compute_partial.assert_called_once()
