"""Contexts in this process: which are supported, and limits."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from moirae.evaluation.contexts import ContextQueries
from moirae.evaluation.contexts.local import LocalContexts
from moirae.evaluation.contexts.shared_queries import SharedQuery
from moirae.evaluation.plan import ActiveRule
from recall.errors import SparkRequired, StatementTimeout
from recall.requests import RecallEvent
from recall.statements import DuckDBStatements, Statement
from tests.unit.moirae.evaluation.contexts.builders import COLUMNS, make_rule

SECOND = 1_000_000  # microseconds


def _rows(count: int) -> pa.Table:
    """A row each second from 1970 on."""
    return pa.table(
        {
            "ts": pa.array([number * SECOND for number in range(count)], pa.timestamp("us", "UTC")),
            "host": [f"h{number % 3}" for number in range(count)],
            "cpu": [float(number) for number in range(count)],
        }
    )


def _share(*rules: ActiveRule) -> SharedQuery:
    """The context `near` of some rules, each with an event of host h1 at second 10."""
    queries = [ContextQueries.lift(rule).queries[0] for rule in rules]
    shared = SharedQuery(queries[0])
    for number, (rule, query) in enumerate(zip(rules, queries, strict=True), start=1):
        attributes: Mapping[str, Any] = {"host": "h1", "tags": ["x"]}
        event = RecallEvent(UUID(int=number), 10 * SECOND, {"host": "h1"}, attributes)
        shared.add(rule, query, [event])
    return shared


def test_rows_belong_to_the_event_by_time_and_condition() -> None:
    texts = LocalContexts().run(_share(make_rule()), COLUMNS, _rows(100))
    assert texts == [(str(UUID(int=1)), '{"host":"h1"}')] * 4, "seconds 1, 4, 7 and 10"


def test_time_that_python_cannot_hold_is_left_to_spark() -> None:
    around = ContextQueries.lift(make_rule(around="SELECT c.ts AS host FROM cpu c")).queries[1]
    shared = SharedQuery(around)
    year_10000 = 253_402_300_800 * SECOND
    shared.add(make_rule(), around, [RecallEvent(UUID(int=1), year_10000, {}, {"host": "h1"})])
    rows = _rows(1).set_column(0, "ts", pa.array([year_10000], pa.timestamp("us", "UTC")))
    with pytest.raises(SparkRequired):
        LocalContexts().run(shared, COLUMNS, rows)


def test_query_outside_of_the_common_part_of_sql_is_not_supported() -> None:
    shared = _share(make_rule("SELECT upper(c.host) AS host FROM cpu c"))
    local = LocalContexts()
    assert not local.supports(shared.query, COLUMNS)
    with pytest.raises(SparkRequired, match="not portable"):
        local.run(shared, COLUMNS, _rows(1))


def test_support_depends_on_the_types_of_columns() -> None:
    query = _share(make_rule()).query
    local = LocalContexts()
    assert local.supports(query, COLUMNS)
    assert not local.supports(query, {**COLUMNS, "host": "double"})


def test_context_with_more_rows_than_the_limit_is_left_to_spark() -> None:
    shared = _share(make_rule())
    assert len(LocalContexts(max_rows=4).run(shared, COLUMNS, _rows(100))) == 4
    with pytest.raises(SparkRequired, match="more than 3 rows"):
        LocalContexts(max_rows=3).run(shared, COLUMNS, _rows(100))


def test_slow_context_is_left_to_spark_for_some_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    local = LocalContexts(clock=lambda: now[0])
    shared = _share(make_rule())

    def exceed(_: DuckDBStatements, statement: Statement, limit: float) -> pa.Table:
        raise StatementTimeout(limit)

    with monkeypatch.context() as patch:
        patch.setattr(DuckDBStatements, "run", exceed)
        with pytest.raises(SparkRequired, match="time limit of 2"):
            local.run(shared, COLUMNS, _rows(9_999))
    with pytest.raises(SparkRequired, match="a short time ago"):
        local.run(shared, COLUMNS, _rows(100))
    now[0] += 301.0
    assert len(local.run(shared, COLUMNS, _rows(100))) == 4
