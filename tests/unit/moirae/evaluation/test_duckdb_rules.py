"""Plain rules over rows in memory, by DuckDB."""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.engine import Declined, RuleEventRows
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.rule_groups import RuleGroup, RuleGrouper
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
    event_rows_of,
    make_filter,
    make_request,
    make_rows,
    make_rule,
    run_engine,
)

SECOND = 1_000_000  # microseconds


def _evaluate(duckdb: DuckDBRules, groups: Sequence[RuleGroup], rows: pa.Table) -> RuleEventRows:
    """The event rows of groups, none of which is declined."""
    return event_rows_of(run_engine(duckdb, groups, make_request(rows)))


def test_each_rule_of_a_batch_gets_its_own_event_rows() -> None:
    rules = [make_filter("A", 1.5), make_filter("B", 2.5)]
    groups = RuleGrouper({"s": COLUMNS}).group(rules)
    event_rows = _evaluate(DuckDBRules(), groups, make_rows(1.0, 2.0, 3.0))
    assert sorted((rule.name, row.ts, row.attributes["v"]) for rule, row in event_rows) == [
        ("g/A", START_MICROS + SECOND, 2.0),
        ("g/A", START_MICROS + 2 * SECOND, 3.0),
        ("g/B", START_MICROS + 2 * SECOND, 3.0),
    ]


def test_attributes_have_the_values_that_spark_writes_to_json() -> None:
    types = {"v": "double", "at": "timestamp"}
    rule = make_rule("A", "SELECT v, ts AS at, ts FROM s", types)
    rows = make_rows(math.nan, math.inf, -math.inf, None)
    event_rows = _evaluate(DuckDBRules(), RuleGrouper({"s": COLUMNS}).group([rule]), rows)
    assert [row.attributes["v"] for _, row in event_rows] == ["NaN", "Infinity", "-Infinity", None]
    assert event_rows[0][1].attributes["at"] == "2026-01-01T00:00:00.000000Z"


def test_rule_without_attributes_has_event_rows() -> None:
    rule = make_rule("A", "SELECT ts FROM s WHERE v > 1.5", {})
    groups = RuleGrouper({"s": COLUMNS}).group([rule])
    event_rows = _evaluate(DuckDBRules(), groups, make_rows(1.0, 2.0, 3.0))
    assert [dict(row.attributes) for _, row in event_rows] == [{}, {}]


def _groups(*queries: str, **types: str) -> Sequence[RuleGroup]:
    """Rules over the stream `s` and the relation `hosts`. `types`: of their attributes."""
    tables = Tables({"s": "ts"}, frozenset({"hosts"}))
    rules: list[ActiveRule] = []
    for name, expr in zip("ABC", queries, strict=False):
        definition = Definition(Rule("g", AlertSpec(alert=name, expr=expr)), types, (), ())
        rules.append(ActiveRule(definition, tables, infer_shape(expr, tables)))
    columns = {"host": "string", "site": "string"}
    return RuleGrouper({"s": COLUMNS}, {"hosts": columns}).group(rules)


def _group_join() -> Sequence[RuleGroup]:
    """A rule that joins rows with the relation."""
    return _groups("SELECT s.ts, h.site FROM s JOIN hosts h ON s.host = h.host", site="string")


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
def duckdb(clock: list[float]) -> DuckDBRules:
    """Joins have 0.1 s, and 1 s more for 20,000 rows."""
    return DuckDBRules(join_time_limit=0.1, clock=lambda: clock[0])


def _count_sites(duckdb: DuckDBRules, rows: pa.Table) -> int | None:
    """The number of joined sites; None if the join is left out. Its result is one row."""
    expr = (
        "SELECT count(*) AS n, window.end AS ts FROM s JOIN hosts h ON s.host = h.host "
        "WHERE h.site <= s.host GROUP BY window(ts, '1 day')"
    )
    (outcome,) = run_engine(duckdb, _groups(expr, n="bigint"), make_request(rows))
    if isinstance(outcome, Declined):
        return None
    ((_, event_row),) = event_rows_of([outcome])
    count: int = event_row.attributes["n"]
    return count


def test_slow_join_is_left_out_until_it_is_tried_again(
    duckdb: DuckDBRules, clock: list[float]
) -> None:
    duckdb.set_relation("hosts", MANY_HOSTS)
    with capture_logs() as logs:
        assert _count_sites(duckdb, ROWS) is None
        assert _count_sites(duckdb, ROWS.slice(0, 1)) is None
        clock[0] += 301.0
        assert _count_sites(duckdb, ROWS) is None
    assert [(log["action"], log["rules"]) for log in logs] == [("join_left_to_spark", ["g/A"])]
    clock[0] += 301.0
    assert _count_sites(duckdb, ROWS.slice(0, 1)) == len(MANY_HOSTS)


def test_slow_join_is_tried_again_when_a_relation_or_the_rules_change(
    duckdb: DuckDBRules,
) -> None:
    duckdb.set_relation("hosts", MANY_HOSTS)
    assert _count_sites(duckdb, ROWS) is None
    duckdb.reset()
    assert _count_sites(duckdb, ROWS.slice(0, 1)) == len(MANY_HOSTS)
    assert _count_sites(duckdb, ROWS) is None
    duckdb.set_relation("hosts", _hosts(1))
    assert _count_sites(duckdb, ROWS) == len(ROWS)


def test_join_with_a_large_result_is_left_out_each_time() -> None:
    duckdb = DuckDBRules(max_joined_rows=5)
    duckdb.set_relation("hosts", _hosts(2))
    (outcome,) = run_engine(duckdb, _group_join(), make_request(ROWS.slice(0, 3)))
    assert isinstance(outcome, Declined)
    assert len(_evaluate(duckdb, _group_join(), ROWS.slice(0, 2))) == 4


def test_source_that_fails_is_computed_once_for_all_its_batches(
    duckdb: DuckDBRules, monkeypatch: pytest.MonkeyPatch
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
    groups = _groups(*queries, site="string")
    (outcome,) = run_engine(duckdb, groups, make_request(ROWS.drop_columns(["host"])))
    assert isinstance(outcome, Declined)
    assert list(outcome.groups) == list(groups)
    assert len(statements) == 1


def test_join_does_not_spill_to_disk(duckdb: DuckDBRules) -> None:
    setting = Statement("SELECT current_setting('temp_directory') AS folder")
    assert duckdb._duckdb.run(setting).to_pylist() == [{"folder": ""}]


def test_row_is_joined_with_the_version_of_a_relation_at_its_time() -> None:
    duckdb = DuckDBRules()

    def sites(*sites: str) -> list[Any]:
        """The joined sites if the host moves to each of some sites, second by second."""
        times = [START + timedelta(seconds=number) for number in range(len(sites) + 1)]
        versions = {
            "host": ["a"] * len(sites),
            "site": list(sites),
            "_valid_from": pa.array(times[:-1], ARROW_TYPES["timestamp"]),
            "_valid_to": pa.array(times[1:], ARROW_TYPES["timestamp"]),
        }
        duckdb.set_relation("hosts", pa.table(versions))
        event_rows = _evaluate(duckdb, _group_join(), make_rows(1.0, 2.0, 3.0))
        return sorted((row.ts - START_MICROS, row.attributes["site"]) for _, row in event_rows)

    assert sites("x", "y") == [(0, "x"), (SECOND, "y")]
    assert sites("x", "z", "y") == [(0, "x"), (SECOND, "z"), (2 * SECOND, "y")]


def test_group_that_fails_is_declined() -> None:
    groups = RuleGrouper({"s": COLUMNS}).group([make_filter("A", 1.5)])
    without_column = make_rows(1.0).drop_columns(["host"])
    (outcome,) = run_engine(DuckDBRules(), groups, make_request(without_column))
    assert isinstance(outcome, Declined)
