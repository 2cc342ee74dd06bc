"""Which engine evaluates a rule, and how a failing rule is isolated. Spark is replaced."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from archiver.delta.schema import ARROW_TYPES
from archiver.errors import TaskLost
from archiver.time_range import TimeRange
from moirae.alerts import EventRow
from moirae.evaluation.batches import RuleBatch
from moirae.evaluation.evaluator import EvaluationResult, RuleEvaluator
from moirae.evaluation.plan import ActiveRule, RuleSlice
from recall.engines.routing.choice import EngineChoice
from recall.errors import MemoryExceeded, SparkRequired, StatementTimeout
from recall.statements import FileRows, Statement
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START,
    START_MICROS,
    make_filter,
    make_rows,
    make_rule,
)

SECOND = 1_000_000  # microseconds


class FakeGuard:
    """Fails statements that include the rule `failing`; records which rules were run together."""

    def __init__(self) -> None:
        self.failing = ""
        self.error: Exception = PySparkException("failed")
        self.suspects: list[str] = []
        self.statements: list[list[str]] = []
        self.failures: dict[str, Any] = {}

    def isolate_suspects(self, rules: Sequence[Any], name: Any) -> list[Sequence[Any]]:
        suspects = [[rule] for rule in rules if name(rule) in self.suspects]
        return [[rule for rule in rules if name(rule) not in self.suspects], *suspects]

    def run_statement(
        self, rules: Sequence[ActiveRule], row_count: int, statement: Statement
    ) -> pa.Table:
        """One event of the first rule."""
        names = [rule.name for rule in rules]
        self.statements.append(names)
        if self.failing in names:
            raise self.error
        return pa.table(
            {
                "rule": [0],
                "ts": pa.array([START], ARROW_TYPES["timestamp"]),
                "attributes": ['{"v": 9.0}'],
            }
        )

    def record_cost(self, rules: Sequence[ActiveRule], seconds: float) -> None:
        assert seconds >= 0

    def record_failure(self, rule: ActiveRule, error: Exception, row: Any = None) -> None:
        self.failures[rule.name] = row


@pytest.fixture
def guard() -> FakeGuard:
    return FakeGuard()


def _evaluator(guard: FakeGuard, engine_choice: EngineChoice) -> RuleEvaluator:
    rows: Any = Mock()
    rows.read_range.return_value = make_rows(1.0, 2.0, 3.0)
    rows.estimate_count.return_value = 3
    any_guard: Any = guard
    return RuleEvaluator(
        rows=rows,
        guard=any_guard,
        columns={"s": COLUMNS},
        relations={},
        engine_choice=engine_choice,
    )


def _upper(name: str) -> ActiveRule:
    """A rule that is not plain."""
    return make_rule(name, "SELECT upper(host) AS host, v, ts FROM s")


def test_plain_rules_are_evaluated_in_this_process(guard: FakeGuard) -> None:
    rule = make_filter("A", 1.5)
    result = _evaluator(guard, engine_choice=EngineChoice()).evaluate(
        [rule], {"s": make_rows(1.0, 2.0)}, 2
    )
    ((evaluated, event_rows),) = result.event_rows
    assert evaluated is rule
    assert [(row.ts, row.attributes["v"]) for row in event_rows] == [(START_MICROS + SECOND, 2.0)]
    assert guard.statements == []


def test_spark_evaluates_the_rules_that_are_not_plain(guard: FakeGuard) -> None:
    rules = [make_filter("A", 1.5), _upper("B")]
    result = _evaluator(guard, engine_choice=EngineChoice()).evaluate(
        rules, {"s": make_rows(1.0, 2.0)}, 2
    )
    assert [(rule.name, len(rows)) for rule, rows in result.event_rows] == [("g/A", 1), ("g/B", 1)]
    assert guard.statements == [["g/B"]]


def test_failing_rule_is_isolated_by_halves(guard: FakeGuard) -> None:
    guard.failing = "g/C"
    rules = [_upper(name) for name in "ABCD"]
    result = _evaluator(guard, engine_choice=EngineChoice("spark")).evaluate(
        rules, {"s": make_rows(1.0)}, 1
    )
    assert guard.statements[:5] == [
        ["g/A", "g/B", "g/C", "g/D"],
        ["g/A", "g/B"],
        ["g/C", "g/D"],
        ["g/C"],
        ["g/D"],
    ]
    assert result.failed == {"g/C"}
    assert [rule.name for rule, _ in result.event_rows] == ["g/A", "g/D"]


def test_failing_row_is_recorded_with_its_stream(guard: FakeGuard) -> None:
    guard.failing = "g/A"
    _evaluator(guard, engine_choice=EngineChoice("spark")).evaluate(
        [_upper("A")], {"s": make_rows(1.0)}, 1
    )
    failing_row = guard.failures["g/A"]
    assert failing_row["stream"] == "s"
    assert failing_row["row"]["v"] == 1.0


def test_after_a_timeout_each_rule_is_evaluated_alone(guard: FakeGuard) -> None:
    guard.failing = "g/A"
    guard.error = StatementTimeout(20.0)
    rules = [_upper(name) for name in "ABCD"]
    result = _evaluator(guard, engine_choice=EngineChoice("spark")).evaluate(
        rules, {"s": make_rows(1.0)}, 1
    )
    assert guard.statements[1:] == [["g/A"], ["g/B"], ["g/C"], ["g/D"]]
    assert (result.failed, guard.failures) == ({"g/A"}, {"g/A": None})


def test_only_events_of_the_slice_are_returned(guard: FakeGuard) -> None:
    rule = make_filter("A", 0.5)
    start = START_MICROS + SECOND
    time_range = TimeRange(start, start + SECOND)
    rule_slice = RuleSlice((rule,), time_range, time_range.shift(start=-SECOND))
    result = _evaluator(guard, engine_choice=EngineChoice()).evaluate_slice(rule_slice)
    assert [[row.ts for row in rows] for _, rows in result.event_rows] == [[start]]


class Tasks:
    """Evaluation in tasks, of which nothing was started."""

    def take_head_start(self) -> float:
        return 0.0


class FailingInTasks(Tasks):
    """Tasks in which one rule exceeds a limit, and another is left to Spark."""

    def __init__(self, charged: str, unsupported: str, error: Exception) -> None:
        self._outcomes: dict[str, Exception] = {
            charged: error,
            unsupported: SparkRequired("not here"),
        }

    def evaluate(
        self, batches: Sequence[RuleBatch], stream: str, rows: FileRows, rule_slice: Any
    ) -> list[tuple[RuleBatch, Any]]:
        """The outcome of each rule."""
        outcomes: list[tuple[RuleBatch, Any]] = []
        for batch in batches:
            for number, index in enumerate(batch.rule_indexes):
                name = batch.rule_names[number]
                event_rows = [(index, EventRow(START_MICROS, {}))]
                single = replace(batch, rule_indexes=(index,), rule_names=(name,))
                outcomes.append((single, self._outcomes.get(name, event_rows)))
        return outcomes


@pytest.mark.parametrize("error", [StatementTimeout(1.0), MemoryExceeded("5 GB"), TaskLost()])
def test_rule_that_exceeds_a_limit_in_a_task_is_charged_and_not_run_again(
    guard: FakeGuard, error: Exception
) -> None:
    evaluator = _evaluator(guard, engine_choice=EngineChoice("spark"))
    tasks: Any = FailingInTasks("g/B", "g/C", error)
    evaluator._executor_rules = tasks
    rules = [make_filter(name, 1.5) for name in "ABC"]
    files: Any = FileRows(Mock(), [], TimeRange())
    result = evaluator.evaluate(rules, {"s": files}, 3)
    assert {rule.name for rule, _ in result.event_rows} == {"g/A", "g/C"}
    assert result.failed == {"g/B"}
    assert list(guard.failures) == ["g/B"]
    assert guard.statements == [["g/C"]]


class TooLargeResults(Tasks):
    """Tasks of which the second job would return more than the driver takes."""

    def __init__(self, message: str) -> None:
        self._message = message

    def evaluate(
        self, batches: Sequence[RuleBatch], stream: str, rows: FileRows, rule_slice: Any
    ) -> Iterator[tuple[RuleBatch, Any]]:
        """The event row of the first batch."""
        yield batches[0], [(batches[0].rule_indexes[0], EventRow(START_MICROS, {}))]
        raise PySparkException(self._message)


def _evaluate_over_files(guard: FakeGuard, tasks: Any) -> EvaluationResult:
    evaluator = _evaluator(guard, engine_choice=EngineChoice("spark"))
    evaluator._executor_rules = tasks
    rules = [make_filter("A", 1.5), make_rule("B", "SELECT host, ts FROM s WHERE v < 9.5")]
    files: Any = FileRows(Mock(), [], TimeRange())
    return evaluator.evaluate(rules, {"s": files}, 3)


def test_rules_whose_event_rows_the_driver_does_not_take_are_left_to_spark(
    guard: FakeGuard,
) -> None:
    """Spark isolates the rules with too many."""
    message = (
        "Job aborted: Total size of serialized results of 4 tasks (1100.0 MiB) is bigger than"
        " spark.driver.maxResultSize (1024.0 MiB)"
    )
    result = _evaluate_over_files(guard, TooLargeResults(message))
    assert [rule.name for rule, _ in result.event_rows] == ["g/A", "g/B"]
    assert (guard.statements, result.failed) == ([["g/B"]], frozenset())


def test_other_failures_of_a_job_are_not_those_of_rules(guard: FakeGuard) -> None:
    with pytest.raises(PySparkException, match="no executors"):
        _evaluate_over_files(guard, TooLargeResults("no executors"))
    assert guard.failures == {}


@pytest.mark.parametrize(
    ("in_memory", "suspects", "is_started"),
    [(None, [], True), (3, [], False), (None, ["g/A"], False)],
)
def test_job_of_a_slice_is_started_if_it_is_one_job_over_files(
    guard: FakeGuard, in_memory: int | None, suspects: list[str], is_started: bool
) -> None:
    evaluator = _evaluator(guard, engine_choice=EngineChoice("spark"))
    rows, tasks = Mock(), Mock()
    rows.count_in_memory.return_value = in_memory
    rows.find_range.return_value = FileRows(Mock(), [], TimeRange())
    evaluator._rows, evaluator._executor_rules = rows, tasks
    guard.suspects = suspects
    rules = (make_filter("A", 1.5), make_filter("B", 2.5))
    evaluator.start_slice(RuleSlice(rules, TimeRange(), TimeRange()))
    assert tasks.start.called == is_started
