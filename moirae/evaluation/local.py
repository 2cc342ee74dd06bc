"""Evaluation of plain rules in this process, by DuckDB over rows in memory.

It takes milliseconds where Spark needs tenths of a second for planning alone. The subset of SQL is
that of `recall.query.plain`; batches that fail here are left to Spark.
"""

import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import Any

import pyarrow as pa

from archiver.periodic import Clock
from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.batches import RuleBatch
from moirae.evaluation.json_values import to_json_values
from moirae.evaluation.limited_joins import MAX_JOINED_ROWS, LimitedJoins
from moirae.evaluation.plan import input_view, relation_view
from recall.errors import SparkRequired
from recall.statements import NO_EXTERNAL_ACCESS, DuckDBStatements, Statement

RuleEventRows = list[tuple[int, EventRow]]
"""Event rows of several rules, each with the position of its rule."""

_JOIN_TIME_LIMIT = 2.0  # seconds of processor time of a join of few rows; see `statement_limit`
_SOURCE_PREFIX = "_rows_"
# Which rules are evaluated together varies, and each set of rules has tables of its own.
_MAX_CONSTANT_TABLES = 256  # tables of constants that stay registered


class LocalEvaluator:
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
        self._constant_tables: OrderedDict[int, str] = OrderedDict()
        self._joins = LimitedJoins(self._duckdb, join_time_limit, max_joined_rows, clock)

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation. `versions`: all row versions, with their validity."""
        self._duckdb.register(relation_view(name), versions)
        self._joins.reset()

    def evaluate(
        self, batches: Sequence[RuleBatch], rows: Mapping[str, pa.Table]
    ) -> list[tuple[RuleBatch, RuleEventRows]]:
        """The event rows of each batch in the rows of streams; batches that fail are left out.

        So are batches with a join that exceeded its time limit a short time ago. A subquery that is
        the source of several batches is computed once.
        """
        for stream, table in rows.items():
            self._duckdb.register(input_view(stream), table)
        row_count = sum(map(len, rows.values()))
        table_by_source = self._compute_shared_sources(batches, row_count)
        results: list[tuple[RuleBatch, RuleEventRows]] = []
        try:
            for batch in batches:
                source = batch.duckdb_query.source
                table = table_by_source.get(source)
                if source in table_by_source and table is None:
                    continue
                # Spark evaluates the rules of the remaining batches and reports their errors.
                with suppress(SparkRequired):
                    results.append((batch, self._evaluate_batch(batch, table, row_count)))
            return results
        finally:
            for registered in filter(None, table_by_source.values()):
                self._duckdb.unregister(registered)

    def _compute_shared_sources(
        self, batches: Sequence[RuleBatch], row_count: int
    ) -> dict[str, str | None]:
        """Register the rows of subqueries that several batches read; the tables by subquery.

        None for a subquery that fails: it would fail for each of the batches.
        """
        readers_by_source: dict[str, list[RuleBatch]] = {}
        for batch in batches:
            if batch.duckdb_query.source_is_query:
                readers_by_source.setdefault(batch.duckdb_query.source, []).append(batch)
        table_by_source: dict[str, str | None] = {}
        for source, readers in readers_by_source.items():
            if len(readers) < 2:
                continue
            table = f"{_SOURCE_PREFIX}{len(table_by_source)}"
            table_by_source[source] = None
            statement = Statement(f"SELECT * FROM {source}")
            with suppress(SparkRequired):
                # If the subquery has a join, so have all its readers.
                if all(batch.duckdb_query.has_relations for batch in readers):
                    source_rows = self._run_join(source, readers, statement, row_count)
                else:
                    source_rows = self._duckdb.run(statement)
                self._duckdb.register(table, source_rows)
                table_by_source[source] = table
        return table_by_source

    def _evaluate_batch(
        self, batch: RuleBatch, source_table: str | None, row_count: int
    ) -> RuleEventRows:
        """`source_table`: has the rows of the source, if these are computed."""
        query = batch.duckdb_query
        statement = Statement(query.sql(self.register_constants(batch), source_table))
        if query.has_relations:
            table = self._run_join(query, [batch], statement, row_count)
        else:
            table = self._duckdb.run(statement)
        return parse_event_rows(batch, table)

    def run_step(
        self, batch: RuleBatch, sql: str, tables: Mapping[str, pa.Table], has_join: bool
    ) -> pa.Table:
        """The result of a step of a batch's query over some tables. Raises `SparkRequired`.

        `has_join`: whether the step joins a relation.
        """
        statement = Statement(sql, tables)
        if not has_join:
            return self._duckdb.run(statement)
        row_count = sum(map(len, tables.values()))
        return self._run_join(batch.duckdb_query, [batch], statement, row_count)

    def _run_join(
        self, key: Hashable, batches: Sequence[RuleBatch], statement: Statement, row_count: int
    ) -> pa.Table:
        """The result of a statement for some batches; see `LimitedJoins.run`."""
        rule_names = list(chain.from_iterable(batch.rule_names for batch in batches))
        return self._joins.run(key, rule_names, statement, row_count)

    def reset(self) -> None:
        """Unregister all tables of constants; try joins again that exceeded their time limit."""
        self._joins.reset()
        for table in self._constant_tables.values():
            self._duckdb.unregister(table)
        self._constant_tables.clear()

    def register_constants(self, batch: RuleBatch) -> str:
        """Register the constants of a batch, unless they are; return the name of the table."""
        if batch.number not in self._constant_tables:
            self._duckdb.register(batch.constants_table, batch.constants)
            self._constant_tables[batch.number] = batch.constants_table
        self._constant_tables.move_to_end(batch.number)
        if len(self._constant_tables) > _MAX_CONSTANT_TABLES:
            _, least_recently_used = self._constant_tables.popitem(last=False)
            self._duckdb.unregister(least_recently_used)
        return batch.constants_table


def parse_event_rows(batch: RuleBatch, table: pa.Table) -> RuleEventRows:
    """Event rows from the result of a plain query (see `PlainQuery`). Raises `SparkRequired`."""
    if not len(table):
        return []
    try:
        return _parse_event_rows(batch, table)
    except (pa.ArrowException, OverflowError) as error:
        raise SparkRequired(str(error)) from error


def _parse_event_rows(batch: RuleBatch, table: pa.Table) -> RuleEventRows:
    query = batch.duckdb_query
    columns: list[list[Any]] = []
    for number, output_type in enumerate(query.output_types):
        columns.append(to_json_values(output_type, table[f"c{number}"]))
    values_by_row: Iterable[tuple[Any, ...]] = zip(*columns, strict=True)
    if not columns:
        values_by_row = repeat((), len(table))
    rule_indexes = table["rule"].to_pylist()
    times = micros_column(table, "ts").tolist()
    event_rows: RuleEventRows = []
    for rule_index, ts, values in zip(rule_indexes, times, values_by_row, strict=True):
        attributes = dict(zip(query.output_names, values, strict=True))
        event_rows.append((rule_index, EventRow(ts, attributes)))
    return event_rows
