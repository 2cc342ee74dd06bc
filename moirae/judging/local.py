"""Plain rules judged in this process, by DuckDB over rows in memory: milliseconds, where Spark plans for tenths.

What it serves is what `recall.query.plain` can write; where it fails, Spark is asked.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC
from math import isnan
from typing import Any

import duckdb
import pyarrow as pa

from archiver.admission import column
from moirae.alerts.event import Found
from moirae.judging.plan import view
from moirae.judging.share import Shared
from recall.engines import duck

# What rules have found, each with the place of its rule.
Places = list[tuple[int, Found]]

_ROWS = "_rows_"
# Tables of constants that stay registered. Which rules are judged together changes, and each set has its own.
_KEPT = 256


class LocalJudge:
    """DuckDB on one thread."""

    def __init__(self) -> None:
        self._duck = duck.connect()
        self._constants: OrderedDict[int, str] = OrderedDict()

    def found(
        self, groups: Sequence[Shared], rows: Mapping[str, pa.Table]
    ) -> list[tuple[Shared, list[tuple[int, Found]]]]:
        """What the groups find in rows of streams, with the place of the rule; groups that failed are left out.

        A query from which several groups read is computed once.
        """
        for name, table in rows.items():
            self._duck.register(view(name), table)
        sources = [group.duck.source for group in groups if group.duck.nested]
        made: dict[str, str] = {}
        answers = []
        try:
            for group in groups:
                try:
                    source = group.duck.source
                    if sources.count(source) > 1 and source not in made:
                        made[source] = f"{_ROWS}{len(made)}"
                        self._duck.register(made[source], duck.answer(self._duck, f"SELECT * FROM {source}"))
                    sql = group.duck.sql(self.constants(group), made.get(source))
                    answers.append((group, finds(group, duck.answer(self._duck, sql))))
                except (duckdb.Error, pa.ArrowException):
                    continue  # Spark will say what is wrong
        finally:
            for name in made.values():
                self._duck.unregister(name)
        return answers

    def ask(self, sql: str, tables: Mapping[str, pa.Table], values: Mapping[str, int]) -> pa.Table:
        """The answer to a query over some tables, with values for its $names. Raises `duckdb.Error`."""
        for name, table in tables.items():
            self._duck.register(name, table)
        try:
            return duck.answer(self._duck, sql, values)
        finally:
            for name in tables:
                self._duck.unregister(name)

    def forget(self) -> None:
        """Other rules run than before: their constants are gone."""
        for table in self._constants.values():
            self._duck.unregister(table)
        self._constants.clear()

    def constants(self, group: Shared) -> str:
        """The name of the table of its constants."""
        if group.number not in self._constants:
            self._duck.register(group.table, group.constants)
            self._constants[group.number] = group.table
        self._constants.move_to_end(group.number)
        if len(self._constants) > _KEPT:
            self._duck.unregister(self._constants.popitem(last=False)[1])
        return group.table


def finds(group: Shared, table: pa.Table) -> Places:
    """What a group has found, as `Plain` yields it."""
    if not len(table):
        return []
    plain = group.duck
    columns = [_values(kind, table[f"c{number}"]) for number, kind in enumerate(plain.types)]
    rows = zip(*columns, strict=True) if columns else [()] * len(table)
    times, places = column(table, "ts").tolist(), table["rule"].to_pylist()
    return [
        (place, Found(ts, dict(zip(plain.names, values, strict=True))))
        for place, ts, values in zip(places, times, rows, strict=True)
    ]


def _values(kind: str, values: pa.ChunkedArray) -> list[Any]:
    """As Spark writes them into JSON, and Python reads them from it."""
    found: list[Any] = values.to_pylist()
    if kind == "double":
        return [_fraction(value) for value in found]
    if kind == "timestamp":
        return [None if v is None else v.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") for v in found]
    return found


def _fraction(value: float | None) -> float | str | None:
    if value is None or abs(value) < float("inf"):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
