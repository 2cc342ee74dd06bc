"""Plain rules judged in this process, by DuckDB over rows in memory: milliseconds, where Spark
plans for tenths.

What it serves is what `recall.query.plain` can write; where it fails, Spark is asked.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC
from math import isnan
from typing import Any

import duckdb
import pyarrow as pa

from archiver.times import micros_column
from moirae.alerts import EventRow
from moirae.evaluation.batches import RuleBatch
from moirae.evaluation.plan import view_name
from recall.engines import connect_duckdb, fetch_table

# What rules have found, each with the place of its rule.
RuleEventRows = list[tuple[int, EventRow]]

_SOURCE_PREFIX = "_rows_"
# Tables of constants that stay registered. Which rules are judged together changes, and each set
# has its own.
_MAX_CONSTANT_TABLES = 256


class LocalEvaluator:
    """DuckDB on one thread."""

    def __init__(self) -> None:
        self._duckdb = connect_duckdb()
        self._constants: OrderedDict[int, str] = OrderedDict()

    def evaluate(
        self, batches: Sequence[RuleBatch], rows: Mapping[str, pa.Table]
    ) -> list[tuple[RuleBatch, list[tuple[int, EventRow]]]]:
        """What the groups find in rows of streams, with the place of the rule; groups that failed
        are left out.

        A query from which several groups read is computed once.
        """
        for name, table in rows.items():
            self._duckdb.register(view_name(name), table)
        sources = [
            group.duckdb_query.source for group in batches if group.duckdb_query.source_is_query
        ]
        made: dict[str, str] = {}
        answers = []
        try:
            for group in batches:
                try:
                    source = group.duckdb_query.source
                    if sources.count(source) > 1 and source not in made:
                        made[source] = f"{_SOURCE_PREFIX}{len(made)}"
                        self._duckdb.register(
                            made[source], fetch_table(self._duckdb, f"SELECT * FROM {source}")
                        )
                    sql = group.duckdb_query.sql(self.register_constants(group), made.get(source))
                    answers.append((group, parse_event_rows(group, fetch_table(self._duckdb, sql))))
                except (duckdb.Error, pa.ArrowException):
                    continue  # Spark will say what is wrong
        finally:
            for name in made.values():
                self._duckdb.unregister(name)
        return answers

    def query(
        self, sql: str, tables: Mapping[str, pa.Table], values: Mapping[str, int]
    ) -> pa.Table:
        """The answer to a query over some tables, with values for its $names. Raises
        `duckdb.Error`.
        """
        for name, table in tables.items():
            self._duckdb.register(name, table)
        try:
            return fetch_table(self._duckdb, sql, values)
        finally:
            for name in tables:
                self._duckdb.unregister(name)

    def clear_constants(self) -> None:
        """Other rules run than before: their constants are gone."""
        for table in self._constants.values():
            self._duckdb.unregister(table)
        self._constants.clear()

    def register_constants(self, batch: RuleBatch) -> str:
        """The name of the table of its constants."""
        if batch.number not in self._constants:
            self._duckdb.register(batch.constants_table, batch.constants)
            self._constants[batch.number] = batch.constants_table
        self._constants.move_to_end(batch.number)
        if len(self._constants) > _MAX_CONSTANT_TABLES:
            self._duckdb.unregister(self._constants.popitem(last=False)[1])
        return batch.constants_table


def parse_event_rows(batch: RuleBatch, table: pa.Table) -> RuleEventRows:
    """What a group has found, as `Plain` yields it."""
    if not len(table):
        return []
    plain = batch.duckdb_query
    columns = [
        _to_json_values(kind, table[f"c{number}"]) for number, kind in enumerate(plain.output_types)
    ]
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    times, places = micros_column(table, "ts").tolist(), table["rule"].to_pylist()
    return [
        (place, EventRow(ts, dict(zip(plain.output_names, values, strict=True))))
        for place, ts, values in zip(places, times, rows, strict=True)
    ]


def _to_json_values(kind: str, values: pa.ChunkedArray) -> list[Any]:
    """As Spark writes them into JSON, and Python reads them from it."""
    found: list[Any] = values.to_pylist()
    if kind == "double":
        return [_to_json_float(value) for value in found]
    if kind == "timestamp":
        return [
            None if v is None else v.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            for v in found
        ]
    return found


def _to_json_float(value: float | None) -> float | str | None:
    if value is None or abs(value) < float("inf"):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
