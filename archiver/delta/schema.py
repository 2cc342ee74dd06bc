"""Schema of a stream's table: the declared columns, and those that the archive adds to each row."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.formats import DEFAULT_TIME_READING, Redaction, TimeReading, is_position
from archiver.times import Micros

# Spark's type names, which the workspace file uses, and the Arrow types they are stored as.
ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

EXTRA_COLUMN = "_extra"
UNIT_COLUMN = "_unit"
LINE_COLUMN = "_line"
APPEND_COLUMN = "_append"

# Columns that the archive adds to each row.
ADDED_COLUMNS: dict[str, pa.DataType] = {
    EXTRA_COLUMN: pa.string(),  # undeclared fields as a JSON object
    "_late": pa.bool_(),  # decided once, at ingest
    "_id": pa.binary(),  # hash of the identity: id columns and time
    "_hash": pa.int64(),  # hash of the content
    UNIT_COLUMN: pa.int64(),  # source unit in the ledger
    LINE_COLUMN: pa.int64(),  # line in the source unit; NULL: not needed any more
    APPEND_COLUMN: pa.int64(),  # number of the append to the stream that added the row
    "chunk": pa.int32(),  # the partition
}

# Columns that can be computed from a row's content: see `archiver.delta.identity`.
IDENTITY_COLUMNS = ("_id", "_hash")
_ADDED_SPARK_TYPES = {EXTRA_COLUMN: "string", "_late": "boolean"}


class EarlierDeclaration(NamedTuple):
    """A stream as it was declared before.

    `last_append`: the last append of rows that were read under it; earlier ones up to that of the
    declaration before. `newest`: none of these rows is newer; None: unknown.
    """

    schema: "StreamSchema"
    last_append: int
    newest: Micros | None = None


@dataclass(frozen=True)
class StreamSchema:
    """The archive's view of a declared stream.

    `columns`: name to type name (a key of `ARROW_TYPES`). `time`: the event time column. `id`:
    columns that identify a row together with the time; None: the whole row. `key`: columns by which
    rows are clustered inside chunks. `lateness`: how far rows may lag behind the newest before they
    are late. `future`: how far they may be ahead of the clock.

    `fields`: the fields of a record that a column is read from, of which the first that is present
    counts; columns that are not named are read from the field of their name. `was`: by renamed
    column, its name before. `earlier`: the declarations before this one, oldest first, as the
    table records them (see `archiver.delta.declarations`). `renamed_to`: the name that the stream
    has now, if it is read under one that it had before. `time_reading`: how the event time is read.
    `identity`: of rows without id columns: their content, or the place of their record in its unit.
    `redactions`: what is replaced in texts before anything is written; identity and content are
    those of the redacted row. `is_never_late`: rows are on time, whatever was read before.
    `measured`: columns that do not identify a row without id columns. `punctuation`: the field of
    records that close event time, see `archiver.ingest.punctuations`.
    """

    name: str
    columns: Mapping[str, str]
    time: str
    id: tuple[str, ...] | None
    key: tuple[str, ...]
    lateness: timedelta
    future: timedelta
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    was: Mapping[str, str] = field(default_factory=dict)
    earlier: tuple[EarlierDeclaration, ...] = ()
    renamed_to: str | None = None
    time_reading: TimeReading = DEFAULT_TIME_READING
    identity: Literal["row", "place"] = "row"
    redactions: tuple[Redaction, ...] = ()
    is_never_late: bool = False
    measured: tuple[str, ...] = ()
    punctuation: str | None = None

    @property
    def is_identified_by_place(self) -> bool:
        """Whether two records are two rows, whatever they say."""
        return self.id is None and self.identity == "place"

    @property
    def table_name(self) -> str:
        """The name of the stream's table."""
        return self.renamed_to or self.name

    def fields_of(self, column: str) -> tuple[str, ...]:
        """The fields that a column is read from: the first that is not null in a record."""
        return self.fields.get(column, (column,))

    @cached_property
    def has_positions(self) -> bool:
        """Whether records are arrays: a column is read from a position, `[0]`."""
        fields = (*self.time_reading.parts, *chain.from_iterable(self.fields.values()))
        return any(map(is_position, fields))

    def present_field(self, column: str, names: Container[str]) -> str | None:
        """The first field of a record that a column is read from; None: it has none of them."""
        return next(iter(self.present_fields(column, names)), None)

    def present_fields(self, column: str, names: Container[str]) -> list[str]:
        """The fields of a record that a column is read from: the first that is not null."""
        return [field_name for field_name in self.fields_of(column) if field_name in names]

    def undeclared_fields(self, names: Collection[str]) -> list[str]:
        """The fields of a record that no column is read from."""
        read_names = {self.present_field(column, names) for column in self.columns}
        if self.time_reading.parts:
            read_names.discard(self.present_field(self.time, names))
            read_names.update(self.time_reading.parts)
        return [name for name in names if name not in read_names]

    @property
    def query_columns(self) -> dict[str, str]:
        """The columns that queries may name: the declared ones and the undeclared fields."""
        return {**self.columns, EXTRA_COLUMN: "string"}

    @property
    def field_names(self) -> list[str]:
        """The fields of a record without names, in the order of the columns."""
        return [self.fields_of(name)[0] for name in self.columns]

    def declaration_numbers(self, appends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The position of the declaration of each append: in `earlier`, or its length."""
        last_appends = [declaration.last_append for declaration in self.earlier]
        return np.searchsorted(last_appends, appends, side="left")

    def declaration(self, number: int) -> "StreamSchema":
        """The declaration of a number of `declaration_numbers`."""
        return self.earlier[number].schema if number < len(self.earlier) else self

    def arrow_schema(self) -> pa.Schema:
        """The table's schema.

        The time comes first: Delta keeps statistics of the first 32 columns only.
        """
        names = dict.fromkeys([self.time, *self.columns])
        declared = [pa.field(name, ARROW_TYPES[self.columns[name]]) for name in names]
        added = map(pa.field, ADDED_COLUMNS.keys(), ADDED_COLUMNS.values())
        return pa.schema([*declared, *added])

    def ddl(self, added_columns: Sequence[str] = ()) -> str:
        """The declared columns as a Spark DDL string. Of the added columns `_extra` and `_late` may be named."""
        types = [*self.columns.items()]
        types += [(name, _ADDED_SPARK_TYPES[name]) for name in added_columns]
        return ", ".join(f"`{name}` {spark_type}" for name, spark_type in types)
