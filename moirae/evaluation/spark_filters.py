"""Evaluation of filters over few rows by Spark's expressions, without a statement.

A statement over some rows takes tenths of a second, most of them to plan it and to compile its
expressions; and which rules are in it changes with each batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import orjson
import pyarrow as pa
from py4j.protocol import Py4JJavaError

from moirae.alerts import EventRow
from moirae.evaluation.engine import (
    Charged,
    Declined,
    EvaluationRequest,
    Events,
    Lost,
    Outcome,
    RuleEngine,
    RuleEventRows,
    describe_row,
)
from moirae.evaluation.lost_rows import LostRow
from moirae.evaluation.plan import ActiveRule, RuleVersion, input_view
from moirae.evaluation.rule_groups import RuleGroup, RuleGrouper
from recall.engines import FilterResult, RowFilters
from recall.errors import FilterFailed

# More are evaluated by a statement, which compiles expressions and uses all cores.
_MAX_VERDICTS = 200_000  # of one evaluation: rows × rules
_CALL_LIMIT = 1.0  # seconds of processor time after which a call evaluates no further rule


_T = TypeVar("_T")


class FilterLimits(Protocol):
    """Limits evaluations without a statement."""

    def run_filters(
        self, rules: Sequence[ActiveRule], row_count: int, evaluate: Callable[[float], _T]
    ) -> _T:
        """The result of evaluating some rules over so many rows.

        `evaluate` gets the seconds of processor time that a rule may take for a row.
        """


class SparkFilters(RuleEngine):
    """Filters over one stream, compiled when they are first evaluated.

    Replaces the input views of the session.
    """

    def __init__(self, grouper: RuleGrouper, filters: RowFilters, limits: FilterLimits) -> None:
        self._grouper = grouper
        self._filters = filters
        self._limits = limits
        self._numbers: dict[RuleVersion, int | None] = {}
        self._columns: dict[str, pa.Schema] = {}  # by stream: for which its filters were compiled

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop the filters of rules that are no longer active."""
        self._remove(self._numbers.keys() - {rule.rule_version for rule in active_rules})

    def _remove(self, versions: set[RuleVersion]) -> None:
        numbers = [self._numbers.pop(version) for version in versions]
        compiled = [number for number in numbers if number is not None]
        if compiled:
            self._filters.remove(compiled)

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """See `RuleEngine`: rules that may be filters over one stream, if their rows are few."""
        selected = [
            group
            for group in groups
            if len(group.rules) == 1
            and len(group.streams) == 1
            and group.rules[0].shape.is_stateless
            and self._numbers.get(group.rules[0].rule_version, 0) is not None
        ]
        return selected if len(selected) * request.row_count <= _MAX_VERDICTS else []

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        """See `RuleEngine`."""
        groups_by_stream: dict[str, list[RuleGroup]] = {}
        for group in groups:
            (stream,) = group.streams
            groups_by_stream.setdefault(stream, []).append(group)
        for stream, members in groups_by_stream.items():
            source = request.sources[stream].load(_MAX_VERDICTS)
            assert source is not None
            try:
                yield from self._evaluate(stream, members, request.with_source(stream, source))
            except Py4JJavaError as error:
                yield Declined(members, request, str(error))

    def _evaluate(
        self, stream: str, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> list[Outcome]:
        table = request.sources[stream].table
        assert table is not None
        self._compile(stream, groups, table.schema)
        outcomes: list[Outcome] = []
        pending: dict[RuleGroup, int] = {}
        statements: list[RuleGroup] = []
        for group in groups:
            number = self._numbers[group.rules[0].rule_version]
            if number is None:
                statements.append(group)
            else:
                pending[group] = number
        if statements:
            outcomes.append(Declined(statements, request, "more than a filter over one stream"))
        while pending:
            for group, result in zip(list(pending), self._run(pending, table), strict=True):
                if result is not None:
                    del pending[group]
                    outcomes += _to_outcomes(group, stream, table, result)
        return outcomes

    def _compile(self, stream: str, groups: Sequence[RuleGroup], columns: pa.Schema) -> None:
        if self._columns.setdefault(stream, columns) != columns:
            self._columns[stream] = columns
            self._remove(set(self._numbers))
        queries: dict[RuleVersion, str] = {}
        for group in groups:
            version = group.rules[0].rule_version
            if version not in self._numbers:
                query = self._grouper.build_filter_query(group)
                self._numbers[version] = None
                if query is not None:
                    queries[version] = query
        if queries:
            view = input_view(stream)
            numbers = self._filters.compile(view, columns, list(queries.values()))
            self._numbers.update(zip(queries, numbers, strict=True))

    def _run(
        self, numbers: Mapping[RuleGroup, int], table: pa.Table
    ) -> Sequence[FilterResult | None]:
        def evaluate(row_limit: float) -> Sequence[FilterResult | None]:
            return self._filters.evaluate(table, list(numbers.values()), row_limit, _CALL_LIMIT)

        rules = [group.rules[0] for group in numbers]
        return self._limits.run_filters(rules, len(table), evaluate)


def _to_outcomes(
    group: RuleGroup, stream: str, table: pa.Table, result: FilterResult
) -> Iterator[Outcome]:
    (rule,) = group.rules
    if result.lost:
        lost_rows: list[LostRow] = []
        for position, message in result.lost:
            (values,) = table.slice(position, 1).to_pylist()
            lost_rows.append(LostRow(rule, stream, values, message))
        yield Lost(lost_rows)
    if result.failed is not None:
        (values,) = table.slice(result.failed.row, 1).to_pylist()
        yield Charged([group], FilterFailed(result.failed.message), describe_row(stream, values))
        return
    event_rows: RuleEventRows = [
        (rule, EventRow(event.ts, orjson.loads(event.attributes))) for event in result.events
    ]
    yield Events([group], event_rows, {rule: result.seconds})
