"""The path of groups through engines."""

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
    evaluate_groups,
)
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
