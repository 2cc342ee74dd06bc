"""The path of an evaluation: groups of rules, the rows that they read, and engines in turn.

An engine takes the groups that it can evaluate. What it declines goes to the next one; what fails is
divided until a single rule is left, which is charged for the failure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from moirae.alerts import EventRow
from moirae.evaluation.plan import ActiveRule, RuleSlice
from moirae.evaluation.rule_groups import RuleGroup
from recall.errors import StatementTimeout
from recall.statements import FileRows

Rows: TypeAlias = pa.Table | FileRows
RuleEventRows = list[tuple[ActiveRule, EventRow]]


class RowSource:
    """The rows of a stream that rules are evaluated over, in memory or in archived files.

    They are read when they are first needed: panes need none. `count`: an upper bound.
    """

    def __init__(
        self,
        count: int,
        read: Callable[[], Rows],
        make_frame: Callable[[Rows], DataFrame],
    ) -> None:
        """`make_frame`: a data frame of the rows."""
        self.count = count
        self._read = read
        self._make_frame = make_frame

    @cached_property
    def _rows(self) -> Rows:
        return self._read()

    @property
    def table(self) -> pa.Table | None:
        """The rows, if memory holds them."""
        return self._rows if isinstance(self._rows, pa.Table) else None

    @property
    def files(self) -> FileRows | None:
        """The archived files of the rows, if memory does not hold them."""
        return self._rows if isinstance(self._rows, FileRows) else None

    def frame(self) -> DataFrame:
        """The rows as a data frame."""
        return self._make_frame(self._rows)

    @classmethod
    def of_table(cls, table: pa.Table) -> "RowSource":
        """Rows that Spark does not read."""

        def make_frame(rows: Rows) -> NoReturn:
            raise AssertionError("rows without a data frame")

        return cls(len(table), lambda: table, make_frame)

    def reduce(self, table: pa.Table) -> "RowSource":
        """Some of the rows."""
        return RowSource(len(table), lambda: table, self._make_frame)


@dataclass(frozen=True, eq=False)
class EvaluationRequest:
    """The rows by stream. `rule_slice`: whose input they are; None: new rows.

    Only events of the slice are complete.
    """

    sources: Mapping[str, RowSource]
    rule_slice: RuleSlice | None = None

    @property
    def row_count(self) -> int:
        """An upper bound, for time limits."""
        return sum(source.count for source in self.sources.values())

    def with_source(self, stream: str, source: RowSource) -> "EvaluationRequest":
        """The request over other rows of a stream."""
        return replace(self, sources={**self.sources, stream: source})


class Events(NamedTuple):
    """The event rows of groups that were evaluated."""

    groups: Sequence[RuleGroup]
    event_rows: RuleEventRows


class Declined(NamedTuple):
    """Groups that are left to the next engines, over all rows or some of them."""

    groups: Sequence[RuleGroup]
    request: EvaluationRequest
    reason: str


class Charged(NamedTuple):
    """Groups that failed. `error`: why; a single rule is charged for it.

    `failing_row`: with its stream, as JSON values; None if no single row makes it fail.
    """

    groups: Sequence[RuleGroup]
    error: Exception
    failing_row: Mapping[str, object] | None = None


Outcome = Events | Declined | Charged


class RuleEngine(Protocol):
    """Evaluates groups of rules."""

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """The groups that the engine takes. No I/O."""

    def prepare(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> None:
        """Start what can run before the results are needed; by default nothing."""
        return

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterable[Outcome]:
        """The outcomes of selected groups, each of which is in one of them."""


class Failure(NamedTuple):
    """A rule that failed alone."""

    rule: ActiveRule
    error: Exception
    failing_row: Mapping[str, object] | None


class GroupResults(NamedTuple):
    """The event rows of all rules, and the failures of those that failed."""

    event_rows: dict[ActiveRule, list[EventRow]]
    failures: list[Failure]


def evaluate_groups(
    groups: Sequence[RuleGroup], request: EvaluationRequest, engines: Sequence[RuleEngine]
) -> GroupResults:
    """Evaluate groups by the engines, in their order; the last one takes all that is left."""
    results = GroupResults({}, [])
    pending: dict[EvaluationRequest, list[RuleGroup]] = {request: list(groups)}
    for engine in engines:
        remaining: dict[EvaluationRequest, list[RuleGroup]] = {}
        for part_request, part in pending.items():
            if not part:
                continue
            selected, declined = select_groups(engine, part, part_request)
            if declined:
                remaining.setdefault(part_request, []).extend(declined)
            for outcome in _isolate(engine, selected, part_request):
                if isinstance(outcome, Declined):
                    remaining.setdefault(outcome.request, []).extend(outcome.groups)
                else:
                    _add_outcome(results, outcome)
        pending = remaining
    assert not any(pending.values())
    for failure in results.failures:
        results.event_rows.pop(failure.rule, None)
    return results


def select_groups(
    engine: RuleEngine, groups: Sequence[RuleGroup], request: EvaluationRequest
) -> tuple[Sequence[RuleGroup], Sequence[RuleGroup]]:
    """The groups that an engine takes, and the others."""
    selected = engine.select(groups, request)
    if not selected or len(selected) == len(groups):
        return selected, [] if selected else groups
    taken = set(selected)
    return selected, [group for group in groups if group not in taken]


def _isolate(
    engine: RuleEngine, groups: Sequence[RuleGroup], request: EvaluationRequest
) -> Iterator[Outcome]:
    """The outcomes of groups, in which each failure is that of a single rule."""
    pending = [groups] if groups else []
    while pending:
        divided: list[Sequence[RuleGroup]] = []
        for outcome in engine.run(pending.pop(), request):
            parts: Sequence[Sequence[RuleGroup]] = []
            if isinstance(outcome, Charged):
                parts = _divide(outcome.groups, outcome.error)
            if parts:
                divided += parts
            else:
                yield outcome
        pending += reversed(divided)


def _divide(groups: Sequence[RuleGroup], error: Exception) -> list[Sequence[RuleGroup]]:
    """Halves; after a timeout each rule, as the slow one would take the whole limit each time.

    Nothing for a single rule.
    """
    rule_count = sum(len(group.rules) for group in groups)
    if rule_count == 1:
        return []
    if isinstance(error, StatementTimeout):
        return [
            [group.select(number, number + 1)]
            for group in groups
            for number in range(len(group.rules))
        ]
    if len(groups) == 1:
        (group,) = groups
        middle = rule_count // 2
        return [[group.select(0, middle)], [group.select(middle, rule_count)]]
    middle = len(groups) // 2
    return [groups[:middle], groups[middle:]]


def _add_outcome(results: GroupResults, outcome: Events | Charged) -> None:
    if isinstance(outcome, Events):
        for rule, event_row in outcome.event_rows:
            results.event_rows.setdefault(rule, []).append(event_row)
        return
    (group,) = outcome.groups
    (rule,) = group.rules
    results.failures.append(Failure(rule, outcome.error, outcome.failing_row))
