"""Which rows of a stream are erased: those of a condition, or those that were erased before."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from archiver.delta import EXTRA_COLUMN, ErasedRows, StreamSchema
from archiver.times import Micros, micros_column
from moirae.errors import UsageError
from recall.errors import SparkRequired
from recall.query import Unsupported, parse
from recall.query.plain import create_recall_writer
from recall.statements import DuckDBStatements, Statement

Mask = npt.NDArray[np.bool_]

_ROWS = "rows"
_POSITION = "_position"


class Selection(Protocol):
    """Selects rows of one stream."""

    @property
    def columns(self) -> Collection[str]:
        """The columns that `select` needs, besides `_id` and the event time."""

    def select(self, rows: pa.Table) -> Mask:
        """Mask of the rows that are erased. `rows`: with these columns."""


@dataclass(frozen=True)
class ErasureCondition:
    """What the command line says. `where`: SQL over the columns of a stream.

    `since`, `until`: event times in microseconds, the second exclusive; None: unbounded.
    """

    where: str
    since: Micros | None = None
    until: Micros | None = None

    @property
    def text(self) -> str:
        """All of it, to be hashed."""
        return f"{self.where}\n{self.since}\n{self.until}"

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of the columns in the condition, in lower case. Raises `UsageError`."""
        return frozenset(column.name.lower() for column in self.parse().find_all(exp.Column))

    def constants(self) -> list[str]:
        """The texts that columns are to equal: what the caller wants to be gone."""
        condition = self.parse()
        texts: list[str] = []
        for node in condition.find_all(exp.EQ, exp.NullSafeEQ, exp.In):
            if node.find_ancestor(exp.Not) is None:
                operands = [node.this, node.args.get("expression"), *node.expressions]
                texts += [each.name for each in operands if _is_text(each)]
        return texts

    def parse(self) -> exp.Expr:
        """The condition as an expression. Raises `UsageError`."""
        try:
            query = parse(f"SELECT * FROM {_ROWS} WHERE ({self.where})")
        except Unsupported as error:
            raise UsageError(f"--where: {error}") from error
        clauses = {name for name, value in query.args.items() if value}
        where = query.args.get("where")
        if where is None or not clauses <= {"expressions", "from", "from_", "where", "kind"}:
            raise UsageError("--where: must be one condition, such as \"user = 'x'\"")
        condition: exp.Expr = where.this
        return condition


class ConditionSelection:
    """Rows of a stream for which a condition is true. Raises `UsageError` where it cannot be."""

    def __init__(
        self, condition: ErasureCondition, schema: StreamSchema, duckdb: DuckDBStatements
    ) -> None:
        self._condition = condition
        self._time = schema.time
        self._duckdb = duckdb
        types = {**schema.columns, EXTRA_COLUMN: "string"}
        self.columns = [name for name in types if name.lower() in condition.columns]
        self._sql = _write(condition, types)

    def select(self, rows: pa.Table) -> Mask:
        """See `Selection`."""
        selected = np.zeros(len(rows), dtype=bool)
        table = rows.select(self.columns).append_column(_POSITION, pa.array(range(len(rows))))
        selected_rows = self._duckdb.run(
            Statement(f"SELECT {_POSITION} FROM {_ROWS} WHERE {self._sql}", tables={_ROWS: table})
        )
        selected[selected_rows[_POSITION].to_numpy()] = True
        ts = micros_column(rows, self._time)
        if self._condition.since is not None:
            selected &= ts >= self._condition.since
        if self._condition.until is not None:
            selected &= ts < self._condition.until
        return selected


class ErasedSelection:
    """Rows of a stream that were erased, as a backup from before has them."""

    columns: Collection[str] = ()

    def __init__(self, erased: ErasedRows, schema: StreamSchema) -> None:
        self._erased = erased
        self._time = schema.time

    def select(self, rows: pa.Table) -> Mask:
        """See `Selection`."""
        selected = np.zeros(len(rows), dtype=bool)
        ids = np.array(rows["_id"].to_pylist(), dtype="S16")
        positions, _ = self._erased.find(ids, micros_column(rows, self._time))
        selected[positions] = True
        return selected


def choose_streams(
    schemas: Mapping[str, StreamSchema], condition: ErasureCondition, names: Collection[str]
) -> list[str]:
    """The streams that a condition is about: those of some names, or all with its columns.

    Raises `UsageError`.
    """
    for name in names:
        if name not in schemas:
            raise UsageError(f"--stream {name}: no such stream in the archive")
    if not condition.columns:
        raise UsageError("--where: names no column")
    chosen: list[str] = []
    for name in names or schemas:
        columns = {column.lower() for column in schemas[name].columns} | {EXTRA_COLUMN}
        missing = sorted(condition.columns - columns)
        if not missing:
            chosen.append(name)
        elif names:
            raise UsageError(f"--where: stream {name} has no column {missing[0]}")
    if not chosen:
        names_text = ", ".join(sorted(condition.columns))
        raise UsageError(f"--where: no stream has the columns {names_text}")
    return sorted(chosen)


def _is_text(node: object) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _write(condition: ErasureCondition, types: Mapping[str, str]) -> str:
    writer = create_recall_writer({_ROWS: types}, ())
    try:
        return f"coalesce({writer.write_condition(condition.parse())}, false)"
    except SparkRequired as error:
        raise UsageError(
            f"--where: {error}: use comparisons of columns with constants, AND, OR, NOT, IN, BETWEEN, "
            "LIKE and IS NULL; a range of time is given with --since and --until"
        ) from error
