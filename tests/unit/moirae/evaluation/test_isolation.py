"""The path of groups through engines, and how what fails is divided."""

from collections.abc import Iterator, Sequence

from moirae.alerts import EventRow
from moirae.evaluation.engine import (
    Charged,
    Declined,
    EvaluationRequest,
    Events,
    Outcome,
    RowSource,
    RuleEngine,
)
from moirae.evaluation.isolation import evaluate_groups
from moirae.evaluation.rule_groups import RuleGroup, RuleGrouper
from recall.errors import StatementTimeout
from tests.unit.moirae.evaluation.builders import COLUMNS, make_filter, make_request, make_rows

(GROUP,) = RuleGrouper({"s": COLUMNS}).group(
    [make_filter(name, number) for number, name in enumerate("ABCDE")]
)


class Engine(RuleEngine):
    """Evaluates what no other behaviour is given for; records the rules of each run."""

    def __init__(self, failing: str = "", error: Exception | None = None) -> None:
        self.failing = failing
        self.error = error or ValueError("failed")
        self.runs: list[tuple[str, int]] = []

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        return groups

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        names = [name.removeprefix("g/") for group in groups for name in group.rule_names]
        self.runs.append(("".join(names), request.row_count))
        if self.failing in names:
            yield Charged(groups, self.error)
        else:
            rules = [rule for group in groups for rule in group.rules]
            yield Events(groups, [(rule, EventRow(0, {})) for rule in rules])


class Declining(Engine):
    """Leaves one row to the next engine."""

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        yield Declined(groups, request.with_source("s", RowSource.of_table(make_rows(1.0))), "few")


def test_failing_group_is_divided_until_one_rule_is_left() -> None:
    engine = Engine("D")
    results = evaluate_groups([GROUP], make_request(make_rows(1.0, 2.0)), [engine])
    assert [rules for rules, _ in engine.runs] == ["ABCDE", "AB", "CDE", "C", "DE", "D", "E"]
    assert [failure.rule.name for failure in results.failures] == ["g/D"]
    assert [rule.name for rule in results.event_rows] == ["g/A", "g/B", "g/C", "g/E"]


def test_after_a_timeout_each_rule_is_evaluated_alone() -> None:
    engine = Engine("D", StatementTimeout(1.0))
    evaluate_groups([GROUP], make_request(make_rows(1.0)), [engine])
    assert [rules for rules, _ in engine.runs] == ["ABCDE", "A", "B", "C", "D", "E"]


def test_what_an_engine_declines_goes_to_the_next_one_with_its_rows() -> None:
    last = Engine()
    evaluate_groups([GROUP], make_request(make_rows(1.0, 2.0)), [Declining(), last])
    assert last.runs == [("ABCDE", 1)]


class Limited(Engine):
    """A rule exceeds its limit over a row with one value."""

    def __init__(self, failing: str, value: float) -> None:
        super().__init__(failing, StatementTimeout(1.0))
        self.value = value

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        table = request.sources["s"].table
        assert table is not None
        failing = self.failing
        self.failing = failing if self.value in table["v"].to_pylist() else ""
        yield from super().run(groups, request)
        self.failing = failing


def test_rule_loses_the_row_for_which_it_exceeds_its_limit() -> None:
    engine = Limited("D", 3.0)
    results = evaluate_groups([GROUP], make_request(make_rows(1.0, 2.0, 3.0, 4.0)), [engine])
    (lost,) = results.lost_rows
    assert (lost.rule.name, lost.values["v"]) == ("g/D", 3.0)
    assert lost.reason == "exceeded its time limit of 1 s of processor time"
    assert results.failures == []
    # Few rows: first each rule alone, then the rows of the slow one.
    runs = [("ABCDE", 4), ("A", 4), ("B", 4), ("C", 4), ("D", 4), ("D", 2), ("D", 2), ("D", 1)]
    assert engine.runs == [*runs, ("D", 1), ("E", 4)]


def test_many_rows_are_divided_before_the_rules() -> None:
    engine = Limited("D", 2_999.0)
    rows = make_rows(*map(float, range(3_000)))
    results = evaluate_groups([GROUP], make_request(rows), [engine])
    assert [row.values["v"] for row in results.lost_rows] == [2_999.0]
    assert engine.runs[:4] == [("ABCDE", 3_000), ("ABCDE", 1_500), ("ABCDE", 1_500), ("ABCDE", 750)]


def test_rule_that_exceeds_its_limit_for_many_rows_fails() -> None:
    class Slow(Engine):
        def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
            self.error = StatementTimeout(1.0)
            self.failing = "D" if request.row_count > 2 else ""
            yield from super().run(groups, request)

    results = evaluate_groups(
        [GROUP], make_request(make_rows(*map(float, range(1_000)))), [Slow("D")]
    )
    assert [failure.rule.name for failure in results.failures] == ["g/D"]
    assert {rule.name for rule in results.event_rows} == {"g/A", "g/B", "g/C", "g/E"}


def test_time_is_charged_to_the_rules_of_an_outcome() -> None:
    class Timed(Engine):
        def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
            yield Events(groups, [], {groups[0].rules[1]: 3.0})

    request = make_request(make_rows(1.0))
    results = evaluate_groups([GROUP], request, [Timed()])
    assert results.seconds == {GROUP.rules[1]: 3.0}
    (shared,) = evaluate_groups([GROUP], request, [Engine()]).shared
    assert 0 <= shared.seconds < 1.0
    assert shared.queries == [(GROUP.rules, 1)]
