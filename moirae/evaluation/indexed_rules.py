"""Evaluation of many different filters in this process, by the index over their conditions.

It takes the rules that neither DuckDB nor batches of one shape evaluate cheaply. Rows for which only
Spark knows a verdict are returned as undecided.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from archiver.delta import ARROW_TYPES
from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.batches import ColumnsByStream, RuleBatcher
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
from recall.engines import LruCache
from recall.errors import SparkRequired

_MAX_RULE_SETS = 64  # sets of rules whose indexes are cached
# DuckDB evaluates a batch of rules of one shape in a millisecond. Plain rules are taken from it if
# they have many shapes, and few rules a shape.
_MAX_PLAIN_SHAPES = 16
_MAX_SHAPE_RULES = 8


class RuleSelection(NamedTuple):
    """The rules that the index evaluates, and those that it leaves to the engines."""

    indexed: tuple[ActiveRule, ...]
    remaining: tuple[ActiveRule, ...]


class UndecidedRows(NamedTuple):
    """Rows that Spark evaluates with some rules."""

    rules: tuple[ActiveRule, ...]
    rows: pa.Table


class IndexedResult(NamedTuple):
    """The event rows of the rules that have any, and what is left to Spark."""

    event_rows: list[tuple[ActiveRule, list[EventRow]]]
    undecided: UndecidedRows | None


class IndexedRules:
    """Compiled rules, and their indexes by set of rules."""

    def __init__(self, columns: ColumnsByStream) -> None:
        """`columns`: the declared columns of streams."""
        self._compiler = RuleCompiler(_by_view(columns))
        self._compiled: dict[RuleVersion, CompiledRule | None] = {}
        self._frequencies: dict[str, AnchorFrequencies] = {}
        self._selections: LruCache[tuple[ActiveRule, ...], RuleSelection]
        self._selections = LruCache(_MAX_RULE_SETS)
        self._indexes: LruCache[tuple[ActiveRule, ...], RuleIndex] = LruCache(_MAX_RULE_SETS)

    def add_streams(self, columns: ColumnsByStream) -> None:
        """Add streams with their columns."""
        self._compiler.add_tables(_by_view(columns))

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop the compiled queries of rules that are no longer active, and all indexes."""
        active_versions = {rule.rule_version for rule in active_rules}
        for inactive in self._compiled.keys() - active_versions:
            del self._compiled[inactive]
        self._selections.clear()
        self._indexes.clear()

    def select(self, rules: Sequence[ActiveRule], batcher: RuleBatcher) -> RuleSelection:
        """The rules that the index evaluates."""
        key = tuple(rules)
        return self._selections.get_or_create(key, lambda: self._select(key, batcher))

    def _select(self, rules: tuple[ActiveRule, ...], batcher: RuleBatcher) -> RuleSelection:
        batches = batcher.batch(rules)
        positions = list(batches.unbatched)
        small = [batch for batch in batches.batches if len(batch.rule_indexes) <= _MAX_SHAPE_RULES]
        if len(small) > _MAX_PLAIN_SHAPES:
            for batch in small:
                positions += batch.rule_indexes
        indexed: set[int] = set()
        unbatched = set(batches.unbatched)
        for position in positions:
            compiled = self._compile(rules[position], batcher)
            if compiled and (compiled.necessary is not None or position in unbatched):
                indexed.add(position)
        return RuleSelection(
            tuple(rules[position] for position in sorted(indexed)),
            tuple(rule for position, rule in enumerate(rules) if position not in indexed),
        )

    def _compile(self, rule: ActiveRule, batcher: RuleBatcher) -> CompiledRule | None:
        key = rule.rule_version
        if key not in self._compiled:
            try:
                query = batcher.take_event_query(rule)
                self._compiled[key] = self._compiler.compile_rule(query, rule.types)
            except SparkRequired:
                self._compiled[key] = None
        return self._compiled[key]

    def explain(self, rule: ActiveRule) -> str:
        """What a row must have for a rule to be evaluated. Raises `SparkRequired`."""
        compiled = self._compiler.compile_rule(rule.bind_event_query(), rule.types)
        return describe(compiled.necessary)

    def evaluate(self, rules: Sequence[ActiveRule], stream: str, table: pa.Table) -> IndexedResult:
        """The event rows of the rules that read a stream in its rows. Raises `SparkRequired`."""
        view = input_view(stream)
        reading = tuple(rule for rule in rules if self._compiled_rule(rule).table == view)
        if not reading:
            return IndexedResult([], None)
        index = self._indexes.get_or_create(reading, lambda: self._build_index(view, reading))
        verdicts: dict[int, list[Verdicts]] = {}
        try:
            for verdict in index.evaluate(table):
                verdicts.setdefault(verdict.rule, []).append(verdict)
            return self._build_result(reading, table, verdicts)
        except (pa.ArrowException, OverflowError) as error:
            raise SparkRequired(str(error)) from error

    def _build_index(self, view: str, rules: Sequence[ActiveRule]) -> RuleIndex:
        frequencies = self._frequencies.setdefault(view, AnchorFrequencies())
        compiled = list(map(self._compiled_rule, rules))
        return RuleIndex(compiled, self._compiler.layouts[view], frequencies)

    def _compiled_rule(self, rule: ActiveRule) -> CompiledRule:
        compiled = self._compiled[rule.rule_version]
        assert compiled is not None
        return compiled

    def _build_result(
        self,
        rules: Sequence[ActiveRule],
        table: pa.Table,
        verdicts_by_rule: Mapping[int, Sequence[Verdicts]],
    ) -> IndexedResult:
        undecided_rules: list[ActiveRule] = []
        undecided_rows: set[int] = set()
        for number, verdicts in verdicts_by_rule.items():
            rows = [row for verdict in verdicts for row in verdict.undecided]
            if rows:
                undecided_rules.append(rules[number])
                undecided_rows.update(rows)
        event_rows: list[tuple[ActiveRule, list[EventRow]]] = []
        for number, verdicts in sorted(verdicts_by_rule.items()):
            rule = rules[number]
            left_out = undecided_rows if rule in undecided_rules else set()
            matches = {
                row: values
                for verdict in verdicts
                for row, values in zip(verdict.rows, verdict.values, strict=True)
                if row not in left_out
            }
            if matches:
                rule_rows = _build_event_rows(self._compiled_rule(rule), table, matches)
                event_rows.append((rule, rule_rows))
        if not undecided_rules:
            return IndexedResult(event_rows, None)
        rows_for_spark = table.take(pa.array(sorted(undecided_rows)))
        return IndexedResult(event_rows, UndecidedRows(tuple(undecided_rules), rows_for_spark))


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
