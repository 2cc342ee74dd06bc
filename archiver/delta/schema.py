"""What a stream's table looks like: declared columns, and what the archive adds to each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

# Spark's type names, as the workspace file uses them, and how the archive stores them.
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

# Added to each row. `_id`: hash of the identity (id columns and time), `_hash`: of the content; `_unit`, `_line`:
# the source unit in the ledger and the line in it; `_late`: decided once, at ingest; `_extra`: undeclared fields
# as a JSON object; `_append`: the number of the append to the stream that brought it; `chunk`: the partition.
ADDED_COLUMNS: dict[str, pa.DataType] = {
    "_extra": pa.string(),
    "_late": pa.bool_(),
    "_id": pa.binary(),
    "_hash": pa.int64(),
    "_unit": pa.int64(),
    "_line": pa.int64(),
    "_append": pa.int64(),
    "chunk": pa.int32(),
}

# What follows from the rows' content: see `archiver.delta.identity`.
IDENTITY_COLUMNS = ("_id", "_hash")
APPEND_COLUMN = "_append"


@dataclass(frozen=True)
class StreamSchema:
    """A declared stream, as the archive needs it.

    `columns` map names to type names of `ARROW_TYPES`; `time` names the event time; `id` the identity beside the
    time (None: the whole row); `key` the clustering inside chunks. Durations bound lateness and the future.
    """

    name: str
    columns: Mapping[str, str]
    time: str
    id: tuple[str, ...] | None
    key: tuple[str, ...]
    lateness: timedelta
    future: timedelta

    def arrow_schema(self) -> pa.Schema:
        """The table's schema. The time comes first: Delta keeps statistics of the first 32 columns only."""
        names = [self.time, *(name for name in self.columns if name != self.time)]
        fields = [pa.field(name, ARROW_TYPES[self.columns[name]]) for name in names]
        return pa.schema([*fields, *(pa.field(name, kind) for name, kind in ADDED_COLUMNS.items())])

    def ddl(self, added_columns: Sequence[str] = ()) -> str:
        """The declared columns (and the named ones of `ADDED`) as a Spark DDL string."""
        spark = {"_late": "boolean"}
        columns = [f"`{name}` {kind}" for name, kind in self.columns.items()]
        return ", ".join([*columns, *(f"`{name}` {spark[name]}" for name in added_columns)])
