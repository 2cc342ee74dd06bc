"""Groups pass through the engines; what fails is divided until a single rule or row is charged.

Errors are divided by rules. Limits are those of a row: what exceeds one is divided by rows, then by
rules, then to a single row of a rule, which loses that row. So no rule fails because it was evaluated
with many others, or over many rows.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archiver.errors import TaskLost
from moirae.alerts import EventRow
from moirae.evaluation.costs import SharedTime
from moirae.evaluation.engine import (
    Charged,
    Declined,
    EvaluationRequest,
    Events,
    Lost,
    Outcome,
    RuleEngine,
)
from moirae.evaluation.lost_rows import LostRow
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.rule_groups import RuleGroup
from recall.errors import MemoryExceeded, StatementTimeout

LIMIT_ERRORS = (StatementTimeout, MemoryExceeded, TaskLost)
_MAX_SHARED_ROWS = 1_000  # rows of many rules that are divided by rules
_MAX_DIVISIONS = 100  # of the rows of one rule in one evaluation; a slower one fails


class Failure(NamedTuple):
    """A rule that failed alone. `failing_row`: as of `Charged`."""

    rule: ActiveRule
    error: Exception
    failing_row: Mapping[str, object] | None


@dataclass
class GroupResults:
    """The event rows of all rules, the failures of those that failed, the rows that rules lost.

    `seconds`: the time that rules took, where an engine tells the times of rules apart; `shared`:
    what it did for several rules.
    """

    event_rows: dict[ActiveRule, list[EventRow]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    lost_rows: list[LostRow] = field(default_factory=list)
    seconds: dict[ActiveRule, float] = field(default_factory=dict)
    shared: list[SharedTime] = field(default_factory=list)


class GroupsWithRows(NamedTuple):
    """Groups with the rows over which an engine evaluates them."""

    groups: Sequence[RuleGroup]
    request: EvaluationRequest

    @property
    def rules(self) -> list[ActiveRule]:
        """The rules of all groups."""
        return [rule for group in self.groups for rule in group.rules]


def evaluate_groups(
    groups: Sequence[RuleGroup], request: EvaluationRequest, engines: Sequence[RuleEngine]
) -> GroupResults:
    """Evaluate groups by the engines, in their order; the last one takes all that is left."""
    results = GroupResults()
    pending: dict[EvaluationRequest, list[RuleGroup]] = {request: list(groups)}
    for engine in engines:
        remaining: dict[EvaluationRequest, list[RuleGroup]] = {}
        for part_request, part in pending.items():
            if not part:
                continue
            selected, declined = select_groups(engine, part, part_request)
            if declined:
                remaining.setdefault(part_request, []).extend(declined)
            selected_part = GroupsWithRows(selected, part_request)
            for outcome in _isolate(engine, selected_part, results):
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


def _isolate(engine: RuleEngine, part: GroupsWithRows, results: GroupResults) -> Iterator[Outcome]:
    """The outcomes of selected groups, in which each failure is that of a single rule.

    `results`: gets the time of rules.
    """
    pending = [part] if part.groups else []
    divisions: Counter[ActiveRule] = Counter()
    failed: set[ActiveRule] = set()
    while pending:
        part = pending.pop()
        if failed and failed.issuperset(part.rules):
            continue
        divided: list[GroupsWithRows] = []
        for outcome in _run_timed(engine, part, results):
            if not isinstance(outcome, Charged):
                yield outcome
                continue
            result = _divide_charged(outcome, part.request, divisions)
            if isinstance(result, list):
                for groups, request in result:
                    # Rows of a file that were divided are in memory: the engine may not take them.
                    selected, declined = select_groups(engine, groups, request)
                    if declined:
                        yield Declined(declined, request, "divided rows")
                    if selected:
                        divided.append(GroupsWithRows(selected, request))
                continue
            if isinstance(result, Charged):
                failed.update(GroupsWithRows(result.groups, part.request).rules)
            yield result
        pending += reversed(divided)


def _run_timed(
    engine: RuleEngine, part: GroupsWithRows, results: GroupResults
) -> Iterator[Outcome]:
    """The outcomes of an engine. `results`: gets the time of rules."""
    started_at = time.perf_counter()
    for outcome in engine.run(*part):
        _add_time(results, outcome, part.request, time.perf_counter() - started_at)
        yield outcome
        started_at = time.perf_counter()


def _add_time(
    results: GroupResults, outcome: Outcome, request: EvaluationRequest, elapsed: float
) -> None:
    """Charge the time until an outcome to its rules."""
    if isinstance(outcome, Lost | Declined):
        return
    spent = outcome.seconds if isinstance(outcome, Events) else None
    if spent is None:
        queries = []
        for group in outcome.groups:
            row_count = sum(request.sources[stream].count for stream in group.streams)
            queries.append((group.rules, row_count))
        results.shared.append(SharedTime(elapsed, queries))
        return
    for rule, rule_seconds in spent.items():
        results.seconds[rule] = results.seconds.get(rule, 0.0) + rule_seconds


def _divide_charged(
    charged: Charged, request: EvaluationRequest, divisions: Counter[ActiveRule]
) -> list[GroupsWithRows] | Charged | Lost:
    """What to evaluate again instead, or who is charged. `divisions`: of single rules so far."""
    part = GroupsWithRows(charged.groups, request)
    parts = divide(part, charged.error)
    if len(parts) < 2:
        lost_row = _find_lost_row(part, charged.error)
        return charged if lost_row is None else Lost([lost_row])
    if len(part.rules) == 1:
        (rule,) = part.rules
        divisions[rule] += 1
        if divisions[rule] > _MAX_DIVISIONS:
            return charged
    return parts


def divide(part: GroupsWithRows, error: Exception) -> list[GroupsWithRows]:
    """Two or more parts of what failed with an error; otherwise it cannot be divided."""
    if not isinstance(error, LIMIT_ERRORS):
        return _halve_rules(part)
    part = GroupsWithRows(part.groups, replace(part.request, is_part=True))
    parts = _divide_by_kind(part)
    if len(parts) < 2:
        parts = _divide_by_rows(part, error)
    if len(parts) < 2:
        parts = _divide_into_rules(part)
    return parts


def _divide_by_kind(part: GroupsWithRows) -> list[GroupsWithRows]:
    """Groups that evaluate each row of one stream alone, by stream, and the others."""
    groups_by_stream: dict[str | None, list[RuleGroup]] = {}
    for group in part.groups:
        groups_by_stream.setdefault(_stream_by_row(group), []).append(group)
    return [GroupsWithRows(groups, part.request) for groups in groups_by_stream.values()]


def _stream_by_row(group: RuleGroup) -> str | None:
    """The stream whose rows are evaluated each alone; None for windows and joins of streams."""
    if not all(rule.shape.is_stateless for rule in group.rules) or len(group.streams) != 1:
        return None
    (stream,) = group.streams
    return stream


def _divide_by_rows(part: GroupsWithRows, error: Exception) -> list[GroupsWithRows]:
    """Halves of the rows, if each is evaluated alone and they are many for the rules.

    What needs too much memory for the rows of a file stays out of the memory of this process.
    """
    stream = _stream_by_row(part.groups[0])
    if stream is None:
        return []
    source = part.request.sources[stream]
    if len(part.rules) > 1 and source.count <= _MAX_SHARED_ROWS:
        return []
    files = source.files
    if files is not None and len(files.files) < 2 and not isinstance(error, StatementTimeout):
        return []
    halves = source.divide()
    return [GroupsWithRows(part.groups, part.request.with_source(stream, half)) for half in halves]


def _divide_into_rules(part: GroupsWithRows) -> list[GroupsWithRows]:
    """Each rule alone: a slow one would take the whole limit in each half."""
    return [
        GroupsWithRows([group.select(number, number + 1)], part.request)
        for group in part.groups
        for number in range(len(group.rules))
    ]


def _halve_rules(part: GroupsWithRows) -> list[GroupsWithRows]:
    groups, request = part
    if len(groups) > 1:
        middle = len(groups) // 2
        return [GroupsWithRows(groups[:middle], request), GroupsWithRows(groups[middle:], request)]
    (group,) = groups
    rule_count = len(group.rules)
    if rule_count == 1:
        return []
    middle = rule_count // 2
    return [
        GroupsWithRows([group.select(0, middle)], request),
        GroupsWithRows([group.select(middle, rule_count)], request),
    ]


def _find_lost_row(part: GroupsWithRows, error: Exception) -> LostRow | None:
    """The row that a rule loses, if it exceeded its limit for that row alone."""
    if not isinstance(error, LIMIT_ERRORS) or len(part.rules) != 1:
        return None
    stream = _stream_by_row(part.groups[0])
    table = None if stream is None else part.request.sources[stream].table
    if stream is None or table is None or len(table) != 1:
        return None
    (values,) = table.to_pylist()
    return LostRow(part.rules[0], stream, values, str(error))


def _add_outcome(results: GroupResults, outcome: Events | Charged | Lost) -> None:
    if isinstance(outcome, Lost):
        results.lost_rows += outcome.rows
        return
    if isinstance(outcome, Events):
        for rule, event_row in outcome.event_rows:
            results.event_rows.setdefault(rule, []).append(event_row)
        return
    (group,) = outcome.groups
    (rule,) = group.rules
    results.failures.append(Failure(rule, outcome.error, outcome.failing_row))
