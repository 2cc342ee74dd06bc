"""Evaluation of plain rules in this process, by DuckDB over rows in memory.

It takes milliseconds where Spark needs tenths of a second for planning alone. The subset of SQL is
that of `recall.query.plain`; groups that fail here are left to Spark.
"""

import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count, repeat
from typing import Any

import pyarrow as pa

from archiver.periodic import Clock
from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.engine import (
    Declined,
    EvaluationRequest,
    Events,
    Outcome,
    RuleEngine,
    RuleEventRows,
)
from moirae.evaluation.json_values import to_json_values
from moirae.evaluation.limited_joins import MAX_JOINED_ROWS, LimitedJoins
from moirae.evaluation.plan import input_view, relation_view
from moirae.evaluation.rule_groups import RuleGroup
from recall.errors import SparkRequired
from recall.statements import NO_EXTERNAL_ACCESS, DuckDBStatements, Statement

_JOIN_TIME_LIMIT = 2.0  # seconds of processor time of a join of few rows; see `statement_limit`
_SOURCE_PREFIX = "_rows_"
# Which rules are evaluated together varies, and each set of rules has tables of its own.
_MAX_CONSTANT_TABLES = 256  # tables of constants that stay registered


class DuckDBRules(RuleEngine):
    """Evaluates plain queries on a DuckDB connection of its own, on one thread.

    Joins have limits: `join_time_limit` in seconds, extended for many rows or rules, and
    `max_joined_rows`. A join that exceeds the time limit is left to Spark for some minutes, unless
    a relation or the rules change before.
    """

    def __init__(
        self,
        join_time_limit: float = _JOIN_TIME_LIMIT,
        max_joined_rows: int = MAX_JOINED_ROWS,
        clock: Clock = time.monotonic,
    ) -> None:
        self._duckdb = DuckDBStatements(NO_EXTERNAL_ACCESS)
        self._constant_tables: OrderedDict[RuleGroup, str] = OrderedDict()
        self._table_numbers = count()
        self._joins = LimitedJoins(self._duckdb, join_time_limit, max_joined_rows, clock)

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation. `versions`: all row versions, with their validity."""
        self._duckdb.register(relation_view(name), versions)
        self._joins.reset()

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        """See `RuleEngine`: plain rules over rows in memory."""
        views = {
            input_view(stream)
            for stream, source in request.sources.items()
            if source.table is not None
        }
        return [group for group in groups if group.query and group.query.streams <= views]

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        """See `RuleEngine`. Groups that fail are declined: Spark reports their errors.

        So are groups with a join that exceeded its time limit a short time ago. A subquery that is
        the source of several groups is computed once.
        """
        row_count = self._register_rows(request)
        tables: dict[str, str] = {}
        try:
            for text, readers in shared_sources(groups).items():
                table = f"{_SOURCE_PREFIX}{len(tables)}"
                try:
                    self._compute_source(text, table, readers, row_count)
                    tables[text] = table
                except SparkRequired as error:
                    # It would fail for each of its readers.
                    yield Declined(readers, request, str(error))
                    groups = [group for group in groups if group not in readers]
            for group in groups:
                try:
                    event_rows = self._evaluate(group, tables, row_count)
                except SparkRequired as error:
                    yield Declined([group], request, str(error))
                else:
                    yield Events([group], event_rows)
        finally:
            for table in tables.values():
                self._duckdb.unregister(table)

    def _compute_source(
        self, text: str, table: str, readers: Sequence[RuleGroup], row_count: int
    ) -> None:
        """Register the rows of a subquery that several groups read. Raises `SparkRequired`."""
        statement = Statement(f"SELECT * FROM {text}")
        # If the subquery has a join, so have all its readers.
        has_join = all(group.plain_query.has_relations for group in readers)
        self._duckdb.register(table, self._run(text, readers, statement, row_count, has_join))

    def _evaluate(
        self, group: RuleGroup, tables: Mapping[str, str], row_count: int
    ) -> RuleEventRows:
        """`tables`: have the rows of the sources that are computed."""
        query = group.plain_query
        text = query.sql(self.register_constants(group), tables.get(query.source))
        has_join = query.has_relations
        return parse_event_rows(
            group, self._run(query, [group], Statement(text), row_count, has_join)
        )

    def run_query(self, group: RuleGroup, request: EvaluationRequest) -> pa.Table:
        """The result of the query of a group without joins, see `PlainQuery`.

        All rows are in memory. Raises `SparkRequired`.
        """
        self._register_rows(request)
        return self._duckdb.run(Statement(group.plain_query.sql(self.register_constants(group))))

    def run_filter(
        self, group: RuleGroup, rows: pa.Table, carried: str
    ) -> list[tuple[Any, EventRow]]:
        """The event rows of a rule that filters one stream (see `PlainQuery.is_filter`).

        Each with the value of a column of its row that is not one of the stream's. Raises
        `SparkRequired`.
        """
        query = group.plain_query
        (view,) = query.streams
        self._duckdb.register(view, rows)
        text = query.sql(self.register_constants(group), carried=carried)
        table = self._duckdb.run(Statement(text))
        event_rows = [row for _, row in parse_event_rows(group, table)]
        return list(zip(table[carried].to_pylist(), event_rows, strict=True))

    def _register_rows(self, request: EvaluationRequest) -> int:
        """Register the rows that memory holds; return how many there are."""
        row_count = 0
        for stream, source in request.sources.items():
            if source.table is not None:
                self._duckdb.register(input_view(stream), source.table)
                row_count += source.count
        return row_count

    def run_step(
        self, group: RuleGroup, sql: str, tables: Mapping[str, pa.Table], has_join: bool
    ) -> pa.Table:
        """The result of a step of a group's query over some tables. Raises `SparkRequired`.

        `has_join`: whether the step joins a relation.
        """
        row_count = sum(map(len, tables.values()))
        return self._run(group.plain_query, [group], Statement(sql, tables), row_count, has_join)

    def _run(
        self,
        key: Hashable,
        groups: Sequence[RuleGroup],
        statement: Statement,
        row_count: int,
        has_join: bool,
    ) -> pa.Table:
        """The result of a statement for some groups; see `LimitedJoins.run`."""
        if not has_join:
            return self._duckdb.run(statement)
        rule_names = [name for group in groups for name in group.rule_names]
        return self._joins.run(key, rule_names, statement, row_count)

    def reset(self) -> None:
        """Unregister all tables of constants; try joins again that exceeded their time limit."""
        self._joins.reset()
        for table in self._constant_tables.values():
            self._duckdb.unregister(table)
        self._constant_tables.clear()

    def register_constants(self, group: RuleGroup) -> str:
        """Register the constants of a group, unless they are; return the name of the table."""
        if group not in self._constant_tables:
            table = f"constants_{next(self._table_numbers)}"
            self._duckdb.register(table, group.constants)
            self._constant_tables[group] = table
        self._constant_tables.move_to_end(group)
        if len(self._constant_tables) > _MAX_CONSTANT_TABLES:
            _, least_recently_used = self._constant_tables.popitem(last=False)
            self._duckdb.unregister(least_recently_used)
        return self._constant_tables[group]


def shared_sources(groups: Sequence[RuleGroup]) -> dict[str, list[RuleGroup]]:
    """The subqueries that several plain groups read, with these groups."""
    readers: dict[str, list[RuleGroup]] = {}
    for group in groups:
        if group.plain_query.source_is_query:
            readers.setdefault(group.plain_query.source, []).append(group)
    return {source: members for source, members in readers.items() if len(members) > 1}


def parse_event_rows(group: RuleGroup, table: pa.Table) -> RuleEventRows:
    """Event rows from the result of a plain query (see `PlainQuery`). Raises `SparkRequired`."""
    if not len(table):
        return []
    try:
        return _parse_event_rows(group, table)
    except (pa.ArrowException, OverflowError) as error:
        raise SparkRequired(str(error)) from error


def _parse_event_rows(group: RuleGroup, table: pa.Table) -> RuleEventRows:
    query = group.plain_query
    columns: list[list[Any]] = []
    for number, output_type in enumerate(query.output_types):
        columns.append(to_json_values(output_type, table[f"c{number}"]))
    values_by_row: Iterable[tuple[Any, ...]] = zip(*columns, strict=True)
    if not columns:
        values_by_row = repeat((), len(table))
    numbers = table["rule"].to_pylist()
    times = micros_column(table, "ts").tolist()
    event_rows: RuleEventRows = []
    for number, ts, values in zip(numbers, times, values_by_row, strict=True):
        attributes = dict(zip(query.output_names, values, strict=True))
        event_rows.append((group.rules[number], EventRow(ts, attributes)))
    return event_rows
