"""Which engine evaluates a rule, and how a failing rule is isolated. Spark is replaced."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from archiver.delta.schema import ARROW_TYPES
from archiver.errors import TaskLost
from archiver.time_range import TimeRange
from moirae.evaluation import executor_rules
from moirae.evaluation.evaluator import EvaluationResult, RuleEngines, RuleEvaluator
from moirae.evaluation.executor_rules import ExecutorRules
from moirae.evaluation.plan import ActiveRule, RuleSlice
from recall.engines.routing.choice import EngineChoice
from recall.errors import StatementTimeout
from recall.statements import (
    FilePart,
    FileRows,
    PartJob,
    PartOutcome,
    PartStatement,
    Statement,
)
from tests.inline_jobs import InlineJobs
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START,
    START_MICROS,
    make_filter,
    make_losses,
    make_rows,
    make_rule,
    make_source,
)

SECOND = 1_000_000  # microseconds


class DirectJobs(InlineJobs):
    """Tasks that run in this thread, with what cannot be pickled."""

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return list(map(function, items))


class FakeGuard:
    """Fails statements that include the rule `failing`; records which rules were run together."""

    def __init__(self) -> None:
        self.failing = ""
        self.error: Exception = PySparkException("failed")
        self.suspects: list[str] = []
        self.statements: list[list[str]] = []
        self.failures: dict[str, Any] = {}
        self.quarantined: set[str] = set()

    def isolate_suspects(self, rules: Sequence[Any], name: Any) -> list[Sequence[Any]]:
        suspects = [[rule] for rule in rules if name(rule) in self.suspects]
        return [[rule for rule in rules if name(rule) not in self.suspects], *suspects]

    def run_statement(
        self, rules: Sequence[ActiveRule], row_count: int, statement: Statement, *, is_part: bool
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

    def isolate(self, rules: Iterable[str]) -> None:
        self.suspects += rules

    def record_failure(self, rule: ActiveRule, error: Exception, row: Any = None) -> None:
        self.failures[rule.name] = row


@pytest.fixture
def guard() -> FakeGuard:
    return FakeGuard()


def make_evaluator(
    guard: FakeGuard, engine_choice: EngineChoice, executor_rules: ExecutorRules | None = None
) -> RuleEvaluator:
    rows: Any = Mock()
    rows.find_range.return_value = make_source(make_rows(1.0, 2.0, 3.0))
    any_guard: Any = guard
    return RuleEvaluator(
        rows=rows,
        guard=any_guard,
        losses=make_losses(),
        columns={"s": COLUMNS},
        relations={},
        engines=RuleEngines(engine_choice, executor_rules),
    )


def _upper(name: str) -> ActiveRule:
    """A rule that is not plain."""
    return make_rule(name, "SELECT upper(host) AS host, v, ts FROM s")


def test_plain_rules_are_evaluated_in_this_process(guard: FakeGuard) -> None:
    rule = make_filter("A", 1.5)
    result = make_evaluator(guard, engine_choice=EngineChoice()).evaluate_rows(
        [rule], {"s": make_source(make_rows(1.0, 2.0))}
    )
    ((evaluated, event_rows),) = result.event_rows
    assert evaluated is rule
    assert [(row.ts, row.attributes["v"]) for row in event_rows] == [(START_MICROS + SECOND, 2.0)]
    assert guard.statements == []


def test_spark_evaluates_the_rules_that_are_not_plain(guard: FakeGuard) -> None:
    rules = [make_filter("A", 1.5), _upper("B")]
    result = make_evaluator(guard, engine_choice=EngineChoice()).evaluate_rows(
        rules, {"s": make_source(make_rows(1.0, 2.0))}
    )
    assert [(rule.name, len(rows)) for rule, rows in result.event_rows] == [("g/A", 1), ("g/B", 1)]
    assert guard.statements == [["g/B"]]


def test_failing_rule_is_isolated_by_halves(guard: FakeGuard) -> None:
    guard.failing = "g/C"
    rules = [_upper(name) for name in "ABCD"]
    result = make_evaluator(guard, engine_choice=EngineChoice("spark")).evaluate_rows(
        rules, {"s": make_source(make_rows(1.0))}
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
    make_evaluator(guard, engine_choice=EngineChoice("spark")).evaluate_rows(
        [_upper("A")], {"s": make_source(make_rows(1.0))}
    )
    failing_row = guard.failures["g/A"]
    assert failing_row["stream"] == "s"
    assert failing_row["row"]["v"] == 1.0


def test_after_a_timeout_each_rule_is_evaluated_alone(guard: FakeGuard) -> None:
    guard.failing = "g/A"
    guard.error = StatementTimeout(20.0)
    rules = [_upper(name) for name in "ABCD"]
    result = make_evaluator(guard, engine_choice=EngineChoice("spark")).evaluate_rows(
        rules, {"s": make_source(make_rows(1.0))}
    )
    assert guard.statements[1:] == [["g/A"], ["g/B"], ["g/C"], ["g/D"]]
    assert (result.failed, guard.suspects) == (frozenset(), ["g/A"])


def test_only_events_of_the_slice_are_returned(guard: FakeGuard) -> None:
    rule = make_filter("A", 0.5)
    start = START_MICROS + SECOND
    time_range = TimeRange(start, start + SECOND)
    rule_slice = RuleSlice((rule,), time_range, time_range.shift(start=-SECOND))
    result = make_evaluator(guard, engine_choice=EngineChoice()).evaluate_slice(rule_slice)
    assert [[row.ts for row in rows] for _, rows in result.event_rows] == [[start]]


def _evaluate_over_files(
    guard: FakeGuard, fail: Callable[[PartStatement], PartOutcome | None]
) -> EvaluationResult:
    """The result of three rules of two shapes in files. `fail`: the outcome of a statement."""

    def run_on_part(job: PartJob, part: FilePart) -> list[PartOutcome]:
        outcomes: list[PartOutcome] = []
        for statement in job.statements:
            outcomes.append(fail(statement) or PartOutcome(0.1, _EVENT))
        return outcomes

    evaluator = make_evaluator(guard, EngineChoice("spark"), ExecutorRules(DirectJobs(), 60.0))
    rules = [
        make_filter("A", 1.5),
        make_rule("B", "SELECT host, v, ts FROM s WHERE v < 9.5"),
        make_rule("C", "SELECT host, v, ts FROM s WHERE v <= 7.5"),
    ]
    file: Any = Mock(rows=10)
    rows = FileRows(Mock(), [file], TimeRange())
    with patch.object(executor_rules, "run_on_part", run_on_part):
        return evaluator.evaluate_rows(rules, {"s": make_source(rows)})


_EVENT = pa.table(
    {"rule": [0], "ts": pa.array([START], ARROW_TYPES["timestamp"]), "c0": ["a"], "c1": [9.0]}
)


def _constant_of(statement: PartStatement) -> float:
    (constants,) = statement.statement.tables.values()
    (value,) = constants["p0"].to_pylist()
    return float(value)


@pytest.mark.parametrize("failure", [PartOutcome(0.1, None, "memory", "5 GB"), TaskLost()])
def test_rule_that_exceeds_a_limit_in_a_task_is_charged_and_not_run_again(
    guard: FakeGuard, failure: PartOutcome | TaskLost
) -> None:
    def fail(statement: PartStatement) -> PartOutcome | None:
        if _constant_of(statement) == 7.5:
            return PartOutcome(0.1, None, "unsupported", "not here")
        if _constant_of(statement) != 9.5:
            return None
        if isinstance(failure, TaskLost):
            raise failure
        return failure

    result = _evaluate_over_files(guard, fail)
    assert {rule.name for rule, _ in result.event_rows} == {"g/A", "g/C"}
    assert result.failed == {"g/B"}
    assert list(guard.failures) == ["g/B"]
    assert guard.statements == [["g/C"]]


def test_rules_whose_event_rows_the_driver_does_not_take_are_left_to_spark(
    guard: FakeGuard,
) -> None:
    """Spark isolates the rules with too many."""

    def fail(statement: PartStatement) -> PartOutcome | None:
        raise PySparkException(
            "Job aborted: Total size of serialized results of 4 tasks (1100.0 MiB) is bigger than"
            " spark.driver.maxResultSize (1024.0 MiB)"
        )

    result = _evaluate_over_files(guard, fail)
    assert (guard.statements, result.failed) == ([["g/A", "g/B", "g/C"]], frozenset())


def test_other_failures_of_a_job_are_not_those_of_rules(guard: FakeGuard) -> None:
    def fail(statement: PartStatement) -> PartOutcome | None:
        raise PySparkException("no executors")

    with pytest.raises(PySparkException, match="no executors"):
        _evaluate_over_files(guard, fail)
    assert guard.failures == {}


@pytest.mark.parametrize(
    ("in_memory", "suspects", "is_started"),
    [(None, [], True), (3, [], False), (None, ["g/A"], False)],
)
def test_job_of_a_slice_is_started_if_it_is_one_job_over_files(
    guard: FakeGuard, in_memory: int | None, suspects: list[str], is_started: bool
) -> None:
    tasks = ExecutorRules(DirectJobs(), 60.0)
    evaluator = make_evaluator(guard, EngineChoice("spark"), tasks)
    rows: Any = evaluator._rows
    rows.count_in_memory.return_value = in_memory
    file: Any = Mock(rows=10)
    rows.find_range.return_value = make_source(FileRows(Mock(), [file], TimeRange()))
    guard.suspects = suspects
    rules = (make_filter("A", 1.5), make_filter("B", 2.5))
    with patch.object(executor_rules, "run_on_part", return_value=[PartOutcome(0.1, _EVENT)]):
        evaluator.start_slice(RuleSlice(rules, TimeRange(), TimeRange()))
    assert (tasks._started is not None) == is_started
