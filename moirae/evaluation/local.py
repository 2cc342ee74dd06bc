"""Evaluation of plain rules in this process, by DuckDB over rows in memory.

It takes milliseconds where Spark needs tenths of a second for planning alone. The subset of SQL is
that of `recall.query.plain`; batches that fail here are left to Spark.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import repeat
from math import isnan
from typing import Any

import pyarrow as pa

from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.batches import RuleBatch
from moirae.evaluation.plan import input_view, relation_view
from recall.engines import DuckDBStatements, Statement, run_each
from recall.errors import SparkRequired, StatementTimeout
from recall.query.plain import PlainQuery

RuleEventRows = list[tuple[int, EventRow]]
"""Event rows of several rules, each with the position of its rule."""

# A join may return far more rows than it reads. Spark evaluates what takes longer, with time limits
# that the rule is charged for.
_JOIN_TIME_LIMIT = 2.0  # seconds of processor time of a statement
# Statements of rules read registered tables only: no files, network or extensions.
_NO_FILE_ACCESS = ("SET enable_external_access = false", "SET lock_configuration = true")
_SOURCE_PREFIX = "_rows_"
# Which rules are evaluated together varies, and each set of rules has tables of its own.
_MAX_CONSTANT_TABLES = 256  # tables of constants that stay registered


class LocalEvaluator:
    """Evaluates plain queries on a DuckDB connection of its own, on one thread."""

    def __init__(
        self, join_time_limit: float = _JOIN_TIME_LIMIT, time_limit: float | None = None
    ) -> None:
        """Limits in seconds of processor time. `time_limit`: of other statements; None: no limit."""
        self._duckdb = DuckDBStatements(_NO_FILE_ACCESS)
        self._time_limit = time_limit
        self._constant_tables: OrderedDict[int, str] = OrderedDict()
        self._join_time_limit = join_time_limit
        self._slow_queries: set[PlainQuery] = set()

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation. `versions`: all row versions, with their validity."""
        self._duckdb.register(relation_view(name), versions)

    def evaluate(
        self, batches: Sequence[RuleBatch], rows: Mapping[str, pa.Table]
    ) -> list[tuple[RuleBatch, RuleEventRows]]:
        """The event rows of each batch in the rows of streams; batches that fail are left out.

        So are batches whose query exceeded its time limit since the last `reset`. A subquery that
        is the source of several batches is computed once.
        """
        for stream, table in rows.items():
            self._duckdb.register(input_view(stream), table)
        source_counts: Counter[str] = Counter()
        for batch in batches:
            if batch.duckdb_query.source_is_query:
                source_counts[batch.duckdb_query.source] += 1
        table_by_source: dict[str, str] = {}

        def evaluate_batch(batch: RuleBatch) -> RuleEventRows:
            query = batch.duckdb_query
            source = query.source
            if source_counts[source] > 1 and source not in table_by_source:
                source_rows = self._run(query, Statement(f"SELECT * FROM {source}"))
                table = f"{_SOURCE_PREFIX}{len(table_by_source)}"
                self._duckdb.register(table, source_rows)
                table_by_source[source] = table
            constants = self.register_constants(batch)
            sql = query.sql(constants, table_by_source.get(source))
            return parse_event_rows(batch, self._run(query, Statement(sql)))

        try:
            # Spark evaluates the rules of the remaining batches and reports their errors.
            results, _ = run_each(batches, evaluate_batch)
            return results
        finally:
            for name in table_by_source.values():
                self._duckdb.unregister(name)

    def query(
        self,
        query: PlainQuery,
        sql: str,
        tables: Mapping[str, pa.Table],
    ) -> pa.Table:
        """The result of a step of a query over some tables. Raises `SparkRequired`."""
        return self._run(query, Statement(sql, tables))

    def _run(self, query: PlainQuery, statement: Statement) -> pa.Table:
        """The result of a step of a query, within its time limit."""
        if query in self._slow_queries:
            raise SparkRequired("join that has exceeded its time limit before")
        try:
            return self._duckdb.run(
                statement, self._join_time_limit if query.has_relations else self._time_limit
            )
        except StatementTimeout as error:
            self._slow_queries.add(query)
            raise SparkRequired(str(error)) from error

    def reset(self) -> None:
        """Unregister all tables of constants; try queries again that exceeded their time limit."""
        self._slow_queries.clear()
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
    except pa.ArrowException as error:
        raise SparkRequired(str(error)) from error


def _parse_event_rows(batch: RuleBatch, table: pa.Table) -> RuleEventRows:
    query = batch.duckdb_query
    columns: list[list[Any]] = []
    for number, output_type in enumerate(query.output_types):
        columns.append(_to_json_values(output_type, table[f"c{number}"]))
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


def _to_json_values(column_type: str, column: pa.ChunkedArray) -> list[Any]:
    """Values of a column as Spark writes them to JSON and Python reads them."""
    values: list[Any] = column.to_pylist()
    if column_type == "double":
        return list(map(_to_json_float, values))
    if column_type == "timestamp":
        return list(map(_to_json_time, values))
    return values


def _to_json_float(value: float | None) -> float | str | None:
    if value is None or abs(value) < float("inf"):
        return value
    if isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"


def _to_json_time(value: datetime | None) -> str | None:
    if value is None:
        return None
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
