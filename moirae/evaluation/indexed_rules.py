"""Evaluation of many different rules by the index over their conditions.

Filters over one stream are evaluated here: those that neither DuckDB nor groups of one shape evaluate
cheaply. Of other rules the index finds the rows that they need; without such a row they cost nothing.
Rows for which only Spark knows a verdict are declined.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import pyarrow as pa

from archiver.delta import ARROW_TYPES
from archiver.executors import Jobs
from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.costs import RuleCounts
from moirae.evaluation.engine import (
    Declined,
    EvaluationRequest,
    Events,
    Outcome,
    RowSource,
    RuleEngine,
    RuleEventRows,
)
from moirae.evaluation.index import (
    AnchorFrequencies,
    CompiledRule,
    IndexJob,
    IndexTaskRule,
    RuleCompiler,
    RuleIndex,
    Verdicts,
    describe,
    select_rows,
)
from moirae.evaluation.json_values import to_json_values
from moirae.evaluation.plan import ActiveRule, RuleVersion, input_view
from moirae.evaluation.rule_groups import ColumnsByStream, RuleGroup, RuleGrouper
from recall.engines import LruCache
from recall.errors import SparkRequired
from recall.statements import MAX_PART_ROWS, MIN_TASK_ROWS, FileRows, divide_files

_MAX_GROUP_SETS = 64  # sets of groups whose indexes are cached
# DuckDB evaluates a group of rules of one shape in a millisecond. Plain rules are taken from it if
# they have many shapes, and few rules a shape.
_MAX_PLAIN_SHAPES = 16
_MAX_SHAPE_RULES = 8
_MAX_READ_ROWS = 2_000_000  # rows of files that are read in this process
# Windows are aggregated by DuckDB from more rows than that in less time than the index takes.
_MAX_WINDOW_ROWS = 200_000


@dataclass(frozen=True, eq=False)
class _IndexedGroups:
    """The index over some groups. `rules`, `group_of_rule`: of each of its numbers."""

    rule_index: RuleIndex
    groups: Sequence[RuleGroup]
    rules: Sequence[ActiveRule]
    group_of_rule: Sequence[RuleGroup]

    @cached_property
    def task_rules(self) -> tuple[IndexTaskRule, ...]:
        """The rules as tasks compile them."""
        task_rules: list[IndexTaskRule] = []
        for rule in self.rules:
            text = rule.bind_event_query().sql(dialect="spark")
            task_rules.append(IndexTaskRule(text, tuple(rule.types.items())))
        return tuple(task_rules)


class IndexExplanation(NamedTuple):
    """`necessary`: what a row must have. `is_exact`: the index decides; else other engines do."""

    necessary: str
    is_exact: bool


class IndexedRules(RuleEngine):
    """Compiled rules, and their indexes by set of groups."""

    def __init__(
        self, columns: ColumnsByStream, grouper: RuleGrouper, jobs: Jobs | None = None
    ) -> None:
        """`columns`: the declared columns of streams.

        `jobs`: find the rows in archived files that any rule needs; None: this process reads them.
        """
        self._grouper = grouper
        self.jobs = jobs
        self._compiler = RuleCompiler(_by_view(columns))
        self._compiled: dict[RuleVersion, CompiledRule | None] = {}
        self._frequencies: dict[str, AnchorFrequencies] = {}
        self._counts: dict[RuleVersion, RuleCounts] = {}
        self._groups_by_stream: LruCache[tuple[RuleGroup, ...], Mapping[str, list[RuleGroup]]]
        self._groups_by_stream = LruCache(_MAX_GROUP_SETS)
        self._indexes: LruCache[tuple[RuleGroup, ...], Mapping[str, _IndexedGroups]]
        self._indexes = LruCache(_MAX_GROUP_SETS)

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
        """See `RuleEngine`: rules of one stream whose rows are read here."""
        key = tuple(groups)
        groups_by_stream = self._groups_by_stream.get_or_create(key, lambda: self._compile_all(key))
        selected: list[RuleGroup] = []
        for stream, members in groups_by_stream.items():
            source = request.sources[stream]
            if not self._is_readable(source):
                continue
            if source.count > _MAX_WINDOW_ROWS:
                members = [group for group in members if group.rules[0].shape.is_stateless]
            selected += members
        return selected

    def _is_readable(self, source: RowSource) -> bool:
        if source.table is not None or self.jobs is not None:
            return True
        return source.count <= _MAX_READ_ROWS

    def _compile_all(self, groups: Sequence[RuleGroup]) -> Mapping[str, list[RuleGroup]]:
        """The groups that the index is worthwhile for, by stream."""
        small = [group for group in groups if group.query and len(group.rules) <= _MAX_SHAPE_RULES]
        candidates = [group for group in groups if group.query is None]
        if len(small) > _MAX_PLAIN_SHAPES:
            candidates += small
        groups_by_stream: dict[str, list[RuleGroup]] = {}
        for group in candidates:
            compiled = list(map(self.compile_rule, group.rules))
            is_selective = all(rule and rule.necessary for rule in compiled)
            is_exact = all(rule and rule.is_exact for rule in compiled)
            if is_selective or (is_exact and group.query is None):
                (stream,) = group.streams
                groups_by_stream.setdefault(stream, []).append(group)
        return groups_by_stream

    def compile_rule(self, rule: ActiveRule) -> CompiledRule | None:
        """The compiled query of a rule; see `RuleCompiler.compile_rule`."""
        key = rule.rule_version
        if key not in self._compiled:
            self._compiled[key] = None
            if len(rule.shape.streams) == 1:
                query = self._grouper.take_event_query(rule)
                self._compiled[key] = self._compiler.compile_rule(query, rule.types)
        return self._compiled[key]

    def explain(self, groups: Sequence[RuleGroup], rule: ActiveRule) -> IndexExplanation | None:
        """How one of the rules of some groups is evaluated; None: by other engines alone."""
        for members in self._compile_all(groups).values():
            for group in members:
                if rule in group.rules:
                    compiled = self.compile_rule(rule)
                    assert compiled is not None
                    return IndexExplanation(describe(compiled.necessary), self._is_exact(group))
        return None

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        """See `RuleEngine`."""
        for stream, indexed in self._open(groups).items():
            outcomes: list[Outcome] = []
            try:
                tables = self._read_tables(stream, indexed, request.sources[stream])
                outcomes += self._evaluate(stream, indexed, tables, request)
            except (SparkRequired, pa.ArrowException, OverflowError) as error:
                outcomes = [Declined(indexed.groups, request, str(error))]
            yield from outcomes

    def reduce(
        self, groups: Sequence[RuleGroup], stream: str, table: pa.Table
    ) -> dict[RuleGroup, pa.Table]:
        """The rows that each group needs, or more; groups that need none are left out."""
        request = EvaluationRequest({stream: RowSource.of_table(table)})
        selected = self.select(groups, request)
        tables = dict.fromkeys(groups, table)
        for group in selected:
            del tables[group]
        for indexed in self._open(selected).values():
            needed: set[int] = set()
            needing: set[RuleGroup] = set()
            for verdicts in self._find_verdicts(indexed, table):
                needing.add(indexed.group_of_rule[verdicts.rule])
                needed.update(verdicts.rows, verdicts.undecided)
            if needing:
                tables |= dict.fromkeys(needing, _take(table, needed))
        return tables

    def _evaluate(
        self,
        stream: str,
        indexed: _IndexedGroups,
        tables: Iterable[pa.Table],
        request: EvaluationRequest,
    ) -> Iterator[Outcome]:
        reduced_tables: list[pa.Table] = []
        reduced_groups: dict[RuleGroup, None] = {}
        event_rows: RuleEventRows = []
        seconds: dict[ActiveRule, float] = {}
        for table in tables:
            verdicts_by_rule: dict[int, list[Verdicts]] = {}
            needed_rows: set[int] = set()
            undecided_rows: set[int] = set()
            undecided_groups: set[RuleGroup] = set()
            for verdicts in self._find_verdicts(indexed, table):
                group = indexed.group_of_rule[verdicts.rule]
                rule = indexed.rules[verdicts.rule]
                seconds[rule] = seconds.get(rule, 0.0) + verdicts.seconds
                if not self._is_exact(group):
                    reduced_groups[group] = None
                    needed_rows.update(verdicts.rows, verdicts.undecided)
                    continue
                verdicts_by_rule.setdefault(verdicts.rule, []).append(verdicts)
                if verdicts.undecided:
                    undecided_groups.add(group)
                    undecided_rows.update(verdicts.undecided)
            if needed_rows:
                reduced_tables.append(_take(table, needed_rows))
            if undecided_rows:
                rows = request.sources[stream].reduce(_take(table, undecided_rows))
                declined = list(undecided_groups)
                part_request = request.with_source(stream, rows)
                yield Declined(declined, part_request, "rows that Spark alone decides")
            for number, rule_verdicts in verdicts_by_rule.items():
                is_declined = indexed.group_of_rule[number] in undecided_groups
                matches = _matches_of(rule_verdicts, undecided_rows if is_declined else set())
                event_rows += self._build_events(indexed.rules[number], table, matches)
        groups = indexed.groups
        if reduced_groups:
            groups = [group for group in groups if group not in reduced_groups]
            rows = request.sources[stream].reduce(pa.concat_tables(reduced_tables))
            part_request = request.with_source(stream, rows)
            yield Declined(list(reduced_groups), part_request, "more than a filter over one stream")
        yield Events(groups, event_rows, seconds)

    def _find_verdicts(self, indexed: _IndexedGroups, table: pa.Table) -> Iterator[Verdicts]:
        for verdicts in indexed.rule_index.evaluate(table):
            version = indexed.rules[verdicts.rule].rule_version
            candidates, matches = self._counts.get(version, (0, 0))
            matches += len(verdicts.rows) + len(verdicts.undecided)
            self._counts[version] = RuleCounts(candidates + verdicts.candidates, matches)
            yield verdicts

    def take_counts(self) -> Mapping[RuleVersion, RuleCounts]:
        """The counts of rules with candidates since the last call."""
        counts = self._counts
        self._counts = {}
        return counts

    def _is_exact(self, group: RuleGroup) -> bool:
        return all(rule and rule.is_exact for rule in map(self.compile_rule, group.rules))

    def _build_events(
        self, rule: ActiveRule, table: pa.Table, matches: Mapping[int, Sequence[Any]]
    ) -> RuleEventRows:
        """`matches`: the values of rows, as the index has them, by their position in the table."""
        compiled = self.compile_rule(rule)
        assert compiled is not None
        if not matches:
            return []
        return [(rule, event_row) for event_row in _build_event_rows(compiled, table, matches)]

    def _open(self, groups: Sequence[RuleGroup]) -> Mapping[str, _IndexedGroups]:
        """The indexes of selected groups, by stream."""
        key = tuple(groups)
        return self._indexes.get_or_create(key, lambda: self._build_indexes(key))

    def _build_indexes(self, groups: Sequence[RuleGroup]) -> Mapping[str, _IndexedGroups]:
        groups_by_stream: dict[str, list[RuleGroup]] = {}
        for group in groups:
            (stream,) = group.streams
            groups_by_stream.setdefault(stream, []).append(group)
        return {
            stream: self._build_index(stream, members)
            for stream, members in groups_by_stream.items()
        }

    def _build_index(self, stream: str, groups: Sequence[RuleGroup]) -> _IndexedGroups:
        view = input_view(stream)
        frequencies = self._frequencies.setdefault(view, AnchorFrequencies())
        compiled: list[CompiledRule] = []
        for group in groups:
            compiled += filter(None, map(self.compile_rule, group.rules))
        return _IndexedGroups(
            RuleIndex(compiled, self._compiler.layouts[view], frequencies),
            groups,
            [rule for group in groups for rule in group.rules],
            [group for group in groups for _ in group.rules],
        )

    # Files

    def _read_tables(
        self, stream: str, indexed: _IndexedGroups, source: RowSource
    ) -> Iterator[pa.Table]:
        """The rows, or those of them that any rule needs."""
        if source.files is None:
            yield source.table
        elif self.jobs is None or source.count < MIN_TASK_ROWS:
            for part in divide_files(source.files, cores=1):
                yield source.files.read(part)
        else:
            yield from self._select_in_tasks(self.jobs, stream, indexed.task_rules, source.files)

    def _select_in_tasks(
        self, jobs: Jobs, stream: str, rules: tuple[IndexTaskRule, ...], files: FileRows
    ) -> Iterator[pa.Table]:
        parts = divide_files(files, jobs.cores)
        if any(part.row_count > MAX_PART_ROWS for part in parts):
            raise SparkRequired(f"a task would read more than {MAX_PART_ROWS:,} rows")
        view = input_view(stream)
        columns = tuple(self._compiler.layouts[view].types.items())
        job = IndexJob(files, view, columns, rules)
        for table in jobs.map(partial(select_rows, job), parts):
            if table is None:
                raise SparkRequired("more rows than the driver takes")
            yield table


def _take(table: pa.Table, rows: set[int]) -> pa.Table:
    return table.take(pa.array(sorted(rows), pa.int64()))


def _matches_of(rule_verdicts: Sequence[Verdicts], left_out: set[int]) -> dict[int, Sequence[Any]]:
    matches: dict[int, Sequence[Any]] = {}
    for verdicts in rule_verdicts:
        for row, values in zip(verdicts.rows, verdicts.values, strict=True):
            if row not in left_out:
                matches[row] = values
    return matches


def _by_view(columns: ColumnsByStream) -> dict[str, Mapping[str, str]]:
    return {input_view(stream): types for stream, types in columns.items()}


def _build_event_rows(
    compiled: CompiledRule, table: pa.Table, matches: Mapping[int, Sequence[Any]]
) -> list[EventRow]:
    """`matches`: the values of rows, as the index has them, by their position in the table."""
    assert compiled.time_column is not None
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
