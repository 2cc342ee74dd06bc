"""Plain rules over rows in memory, by DuckDB."""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.batches import RuleBatch, RuleBatcher
from moirae.evaluation.local import LocalEvaluator
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query.shape import Tables, infer_shape
from recall.statements.duckdb_statements import DuckDBStatements
from recall.statements.statement import Statement
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START,
    START_MICROS,
    make_filter,
    make_rows,
    make_rule,
)

SECOND = 1_000_000  # microseconds


def test_each_rule_of_a_batch_gets_its_own_event_rows() -> None:
    rules = [make_filter("A", 1.5), make_filter("B", 2.5)]
    batches = RuleBatcher({"s": COLUMNS}).batch(rules).batches
    ((_, event_rows),) = LocalEvaluator().evaluate(batches, {"s": make_rows(1.0, 2.0, 3.0)})
    found = sorted((index, row.ts, row.attributes["v"]) for index, row in event_rows)
    assert found == [
        (0, START_MICROS + SECOND, 2.0),
        (0, START_MICROS + 2 * SECOND, 3.0),
        (1, START_MICROS + 2 * SECOND, 3.0),
    ]


def test_attributes_have_the_values_that_spark_writes_to_json() -> None:
    types = {"v": "double", "at": "timestamp"}
    rule = make_rule("A", "SELECT v, ts AS at, ts FROM s", types)
    batches = RuleBatcher({"s": COLUMNS}).batch([rule]).batches
    rows = make_rows(math.nan, math.inf, -math.inf, None)
    ((_, event_rows),) = LocalEvaluator().evaluate(batches, {"s": rows})
    assert [row.attributes["v"] for _, row in event_rows] == ["NaN", "Infinity", "-Infinity", None]
    assert event_rows[0][1].attributes["at"] == "2026-01-01T00:00:00.000000Z"


def test_rule_without_attributes_has_event_rows() -> None:
    rule = make_rule("A", "SELECT ts FROM s WHERE v > 1.5", {})
    batches = RuleBatcher({"s": COLUMNS}).batch([rule]).batches
    ((_, event_rows),) = LocalEvaluator().evaluate(batches, {"s": make_rows(1.0, 2.0, 3.0)})
    assert [dict(row.attributes) for _, row in event_rows] == [{}, {}]


def _batches(*queries: str, **types: str) -> Sequence[RuleBatch]:
    """Rules over the stream `s` and the relation `hosts`. `types`: of their attributes."""
    tables = Tables({"s": "ts"}, frozenset({"hosts"}))
    rules: list[ActiveRule] = []
    for name, expr in zip("ABC", queries, strict=False):
        definition = Definition(Rule("g", AlertSpec(alert=name, expr=expr)), types, (), ())
        rules.append(ActiveRule(definition, tables, infer_shape(expr, tables)))
    columns = {"host": "string", "site": "string"}
    return RuleBatcher({"s": COLUMNS}, {"hosts": columns}).batch(rules).batches


def _batch_join() -> Sequence[RuleBatch]:
    """A rule that joins rows with the relation."""
    return _batches("SELECT s.ts, h.site FROM s JOIN hosts h ON s.host = h.host", site="string")


ROWS = make_rows(*[1.0] * 2_000)


def _hosts(count: int) -> pa.Table:
    """Equal versions of the host of all rows."""
    times = [START, START + timedelta(days=1)]
    starts, ends = (pa.array([time] * count, ARROW_TYPES["timestamp"]) for time in times)
    names = pa.array(["a"] * count)
    return pa.table({"host": names, "site": names, "_valid_from": starts, "_valid_to": ends})


MANY_HOSTS = _hosts(100_000)  # a join of all rows with them takes seconds


@pytest.fixture
def clock() -> list[float]:
    """The time of an evaluator, in seconds."""
    return [0.0]


@pytest.fixture
def local(clock: list[float]) -> LocalEvaluator:
    """Joins have 0.1 s, and 1 s more for 20,000 rows."""
    return LocalEvaluator(join_time_limit=0.1, clock=lambda: clock[0])


def _count_sites(local: LocalEvaluator, rows: pa.Table) -> int | None:
    """The number of joined sites; None if the join is left out. Its result is one row."""
    expr = (
        "SELECT count(*) AS n, window.end AS ts FROM s JOIN hosts h ON s.host = h.host "
        "WHERE h.site <= s.host GROUP BY window(ts, '1 day')"
    )
    results = local.evaluate(_batches(expr, n="bigint"), {"s": rows})
    if not results:
        return None
    ((_, ((_, event_row),)),) = results
    count: int = event_row.attributes["n"]
    return count


def test_slow_join_is_left_out_until_it_is_tried_again(
    local: LocalEvaluator, clock: list[float]
) -> None:
    local.set_relation("hosts", MANY_HOSTS)
    with capture_logs() as logs:
        assert _count_sites(local, ROWS) is None
        assert _count_sites(local, ROWS.slice(0, 1)) is None
        clock[0] += 301.0
        assert _count_sites(local, ROWS) is None
    assert [(log["action"], log["rules"]) for log in logs] == [("join_left_to_spark", ["g/A"])]
    clock[0] += 301.0
    assert _count_sites(local, ROWS.slice(0, 1)) == len(MANY_HOSTS)


def test_slow_join_is_tried_again_when_a_relation_or_the_rules_change(
    local: LocalEvaluator,
) -> None:
    local.set_relation("hosts", MANY_HOSTS)
    assert _count_sites(local, ROWS) is None
    local.reset()
    assert _count_sites(local, ROWS.slice(0, 1)) == len(MANY_HOSTS)
    assert _count_sites(local, ROWS) is None
    local.set_relation("hosts", _hosts(1))
    assert _count_sites(local, ROWS) == len(ROWS)


def test_join_with_a_large_result_is_left_out_each_time() -> None:
    local = LocalEvaluator(max_joined_rows=5)
    local.set_relation("hosts", _hosts(2))
    assert local.evaluate(_batch_join(), {"s": ROWS.slice(0, 3)}) == []
    ((_, event_rows),) = local.evaluate(_batch_join(), {"s": ROWS.slice(0, 2)})
    assert len(event_rows) == 4


def test_source_that_fails_is_computed_once_for_all_its_batches(
    local: LocalEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    run = DuckDBStatements.run

    def record(self: DuckDBStatements, statement: Statement, limit: float | None = None) -> Any:
        statements.append(statement.text)
        return run(self, statement, limit)

    monkeypatch.setattr(DuckDBStatements, "run", record)
    source = "(SELECT s.ts, h.site FROM s JOIN hosts h ON s.host = h.host) AS x"
    queries = [
        f"SELECT site, ts FROM {source}",
        f"SELECT site, ts FROM {source} WHERE site < 'b'",
        f"SELECT site, ts FROM {source} WHERE site > 'b'",
    ]
    batches = _batches(*queries, site="string")
    without_column = ROWS.drop_columns(["host"])
    assert local.evaluate(batches, {"s": without_column}) == []
    assert len(statements) == 1


def test_join_does_not_spill_to_disk(local: LocalEvaluator) -> None:
    setting = Statement("SELECT current_setting('temp_directory') AS folder")
    assert local._duckdb.run(setting).to_pylist() == [{"folder": ""}]


def test_row_is_joined_with_the_version_of_a_relation_at_its_time() -> None:
    batches = _batch_join()
    local = LocalEvaluator()

    def sites(*sites: str) -> list[Any]:
        """The joined sites if the host moves to each of some sites, second by second."""
        times = [START + timedelta(seconds=number) for number in range(len(sites) + 1)]
        versions = {
            "host": ["a"] * len(sites),
            "site": list(sites),
            "_valid_from": pa.array(times[:-1], ARROW_TYPES["timestamp"]),
            "_valid_to": pa.array(times[1:], ARROW_TYPES["timestamp"]),
        }
        local.set_relation("hosts", pa.table(versions))
        ((_, event_rows),) = local.evaluate(batches, {"s": make_rows(1.0, 2.0, 3.0)})
        return sorted((row.ts - START_MICROS, row.attributes["site"]) for _, row in event_rows)

    assert sites("x", "y") == [(0, "x"), (SECOND, "y")]
    assert sites("x", "z", "y") == [(0, "x"), (SECOND, "z"), (2 * SECOND, "y")]


def test_batch_that_fails_is_left_out() -> None:
    batches = RuleBatcher({"s": COLUMNS}).batch([make_filter("A", 1.5)]).batches
    without_column = make_rows(1.0).drop_columns(["host"])
    assert LocalEvaluator().evaluate(batches, {"s": without_column}) == []
