"""Evaluation of many different filters in this process, by the index over their conditions.

It takes the rules that neither DuckDB nor groups of one shape evaluate cheaply. Rows for which only
Spark knows a verdict are declined.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from archiver.delta import ARROW_TYPES
from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.engine import (
    Declined,
    EvaluationRequest,
    Events,
    Outcome,
    RowSource,
    RuleEventRows,
)
from moirae.evaluation.index import (
    AnchorFrequencies,
    CompiledRule,
    RuleCompiler,
    RuleIndex,
    Verdicts,
    describe,
)
from moirae.evaluation.json_values import to_json_values
from moirae.evaluation.plan import ActiveRule, RuleVersion, input_view
from moirae.evaluation.rule_groups import ColumnsByStream, RuleGroup, RuleGrouper
from recall.engines import LruCache
from recall.errors import SparkRequired
from recall.statements import divide_files

_MAX_GROUP_SETS = 64  # sets of groups whose indexes are cached
# DuckDB evaluates a group of rules of one shape in a millisecond. Plain rules are taken from it if
# they have many shapes, and few rules a shape.
_MAX_PLAIN_SHAPES = 16
_MAX_SHAPE_RULES = 8
_MAX_READ_ROWS = 2_000_000  # rows of files that are read in this process


class IndexedRules:
    """Compiled rules, and their indexes by set of groups."""

    def __init__(self, columns: ColumnsByStream, grouper: RuleGrouper) -> None:
        """`columns`: the declared columns of streams."""
        self._grouper = grouper
        self._compiler = RuleCompiler(_by_view(columns))
        self._compiled: dict[RuleVersion, CompiledRule | None] = {}
        self._frequencies: dict[str, AnchorFrequencies] = {}
        self._groups_by_stream: LruCache[tuple[RuleGroup, ...], Mapping[str, list[RuleGroup]]]
        self._groups_by_stream = LruCache(_MAX_GROUP_SETS)
        self._indexes: LruCache[tuple[RuleGroup, ...], RuleIndex] = LruCache(_MAX_GROUP_SETS)

    def add_streams(self, columns: ColumnsByStream) -> None:
        """Add streams with their columns."""
        self._compiler.add_tables(_by_view(columns))

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop the compiled queries of rules that are no longer active, and all indexes."""
        active_versions = {rule.rule_version for rule in active_rules}
        for inactive in self._compiled.keys() - active_versions:
            del self._compiled[inactive]
        self._groups_by_stream.clear()
        self._indexes.clear()

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """See `RuleEngine`: filters over one stream whose rows this process reads."""
        key = tuple(groups)
        groups_by_stream = self._groups_by_stream.get_or_create(key, lambda: self._compile_all(key))
        selected: list[RuleGroup] = []
        for stream, members in groups_by_stream.items():
            if _is_readable(request.sources[stream]):
                selected += members
        return selected

    def _compile_all(self, groups: Sequence[RuleGroup]) -> Mapping[str, list[RuleGroup]]:
        """The groups that the index evaluates, by stream."""
        small = [group for group in groups if group.query and len(group.rules) <= _MAX_SHAPE_RULES]
        candidates = [group for group in groups if group.query is None]
        if len(small) > _MAX_PLAIN_SHAPES:
            candidates += small
        groups_by_stream: dict[str, list[RuleGroup]] = {}
        for group in candidates:
            compiled = list(map(self._compile, group.rules))
            is_worthwhile = group.query is None or all(
                rule is not None and rule.necessary is not None for rule in compiled
            )
            if None not in compiled and is_worthwhile:
                (stream,) = group.streams
                groups_by_stream.setdefault(stream, []).append(group)
        return groups_by_stream

    def _compile(self, rule: ActiveRule) -> CompiledRule | None:
        key = rule.rule_version
        if key not in self._compiled:
            try:
                query = self._grouper.take_event_query(rule)
                self._compiled[key] = self._compiler.compile_rule(query, rule.types)
            except SparkRequired:
                self._compiled[key] = None
        return self._compiled[key]

    def explain(self, rule: ActiveRule) -> str:
        """What a row must have for a rule to be evaluated. Raises `SparkRequired`."""
        compiled = self._compiler.compile_rule(rule.bind_event_query(), rule.types)
        return describe(compiled.necessary)

    def prepare(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> None:
        """See `RuleEngine`."""

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        """See `RuleEngine`."""
        groups_by_stream: dict[str, list[RuleGroup]] = {}
        for group in groups:
            (stream,) = group.streams
            groups_by_stream.setdefault(stream, []).append(group)
        for stream, members in groups_by_stream.items():
            outcomes: list[Outcome] = []
            try:
                for table in _read_tables(request.sources[stream]):
                    outcomes += self._evaluate(members, stream, table, request)
            except (SparkRequired, pa.ArrowException, OverflowError) as error:
                outcomes = [Declined(members, request, str(error))]
            yield from outcomes

    def _evaluate(
        self,
        groups: Sequence[RuleGroup],
        stream: str,
        table: pa.Table,
        request: EvaluationRequest,
    ) -> Iterator[Outcome]:
        key = tuple(groups)
        index = self._indexes.get_or_create(key, lambda: self._build_index(stream, key))
        rules = [rule for group in groups for rule in group.rules]
        verdicts_by_rule: dict[ActiveRule, list[Verdicts]] = {}
        undecided_rows: set[int] = set()
        for verdicts in index.evaluate(table):
            verdicts_by_rule.setdefault(rules[verdicts.rule], []).append(verdicts)
            undecided_rows.update(verdicts.undecided)
        undecided_groups: list[RuleGroup] = []
        if undecided_rows:
            for group in groups:
                verdicts_of_group = [
                    v for rule in group.rules for v in verdicts_by_rule.get(rule, ())
                ]
                if any(verdicts.undecided for verdicts in verdicts_of_group):
                    undecided_groups.append(group)
            source = request.sources[stream].reduce(table.take(pa.array(sorted(undecided_rows))))
            part_request = request.with_source(stream, source)
            yield Declined(undecided_groups, part_request, "rows that Spark alone decides")
        declined_rules = {rule for group in undecided_groups for rule in group.rules}
        event_rows: RuleEventRows = []
        for rule, rule_verdicts in verdicts_by_rule.items():
            left_out = undecided_rows if rule in declined_rules else set()
            matches = {
                row: values
                for verdicts in rule_verdicts
                for row, values in zip(verdicts.rows, verdicts.values, strict=True)
                if row not in left_out
            }
            if matches:
                compiled = self._compiled[rule.rule_version]
                assert compiled is not None
                for event_row in _build_event_rows(compiled, table, matches):
                    event_rows.append((rule, event_row))
        yield Events(groups, event_rows)

    def _build_index(self, stream: str, groups: Sequence[RuleGroup]) -> RuleIndex:
        view = input_view(stream)
        frequencies = self._frequencies.setdefault(view, AnchorFrequencies())
        compiled: list[CompiledRule] = []
        for group in groups:
            compiled += filter(None, map(self._compile, group.rules))
        return RuleIndex(compiled, self._compiler.layouts[view], frequencies)


def _is_readable(source: RowSource) -> bool:
    """Whether this process reads the rows."""
    return source.table is not None or source.count <= _MAX_READ_ROWS


def _read_tables(source: RowSource) -> Iterator[pa.Table]:
    if source.table is not None:
        yield source.table
    elif source.files is not None:
        for part in divide_files(source.files, cores=1):
            yield source.files.read(part)


def _by_view(columns: ColumnsByStream) -> dict[str, Mapping[str, str]]:
    return {input_view(stream): types for stream, types in columns.items()}


def _build_event_rows(
    compiled: CompiledRule, table: pa.Table, matches: Mapping[int, Sequence[Any]]
) -> list[EventRow]:
    """`matches`: the values of rows, as the index has them, by their position in the table."""
    names = {compiled.time_column}
    names.update(output.value.column or "" for output in compiled.outputs if output.is_column)
    rows = table.select(sorted(names)).take(pa.array(list(matches), pa.int64()))
    attributes: list[list[Any]] = []
    for output in compiled.outputs:
        value = output.value
        if output.is_column:
            column = rows[value.column]
        else:
            computed = [value.get(row) for row in matches.values()]
            column = pa.chunked_array([pa.array(computed, ARROW_TYPES[value.type])])
        attributes.append(to_json_values(value.type, column))
    names_of_outputs = [output.name for output in compiled.outputs]
    times = micros_column(rows, compiled.time_column).tolist()
    event_rows: list[EventRow] = []
    for number, ts in enumerate(times):
        values = [column_values[number] for column_values in attributes]
        event_rows.append(EventRow(ts, dict(zip(names_of_outputs, values, strict=True))))
    return event_rows
