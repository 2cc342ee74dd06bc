"""Schema of a stream's table: the declared columns, and those that the archive adds to each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

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

# Columns that the archive adds to each row.
ADDED_COLUMNS: dict[str, pa.DataType] = {
    "_extra": pa.string(),  # undeclared fields as a JSON object
    "_late": pa.bool_(),  # decided once, at ingest
    "_id": pa.binary(),  # hash of the identity: id columns and time
    "_hash": pa.int64(),  # hash of the content
    "_unit": pa.int64(),  # source unit in the ledger
    "_line": pa.int64(),  # line in the source unit
    "_append": pa.int64(),  # number of the append to the stream that added the row
    "chunk": pa.int32(),  # the partition
}

# Columns that can be computed from a row's content: see `archiver.delta.identity`.
IDENTITY_COLUMNS = ("_id", "_hash")
APPEND_COLUMN = "_append"
_ADDED_SPARK_TYPES = {"_late": "boolean"}


@dataclass(frozen=True)
class StreamSchema:
    """The archive's view of a declared stream.

    `columns`: name to type name (a key of `ARROW_TYPES`). `time`: the event time column. `id`:
    columns that identify a row together with the time; None: the whole row. `key`: columns by which
    rows are clustered inside chunks. `lateness`: how far rows may lag behind the newest before they
    are late. `future`: how far they may be ahead of the clock.
    """

    name: str
    columns: Mapping[str, str]
    time: str
    id: tuple[str, ...] | None
    key: tuple[str, ...]
    lateness: timedelta
    future: timedelta

    def arrow_schema(self) -> pa.Schema:
        """The table's schema.

        The time comes first: Delta keeps statistics of the first 32 columns only.
        """
        names = dict.fromkeys([self.time, *self.columns])
        declared = [pa.field(name, ARROW_TYPES[self.columns[name]]) for name in names]
        added = map(pa.field, ADDED_COLUMNS.keys(), ADDED_COLUMNS.values())
        return pa.schema([*declared, *added])

    def ddl(self, added_columns: Sequence[str] = ()) -> str:
        """The declared columns as a Spark DDL string. Of the added columns `_late` may be named."""
        types = [*self.columns.items()]
        types += [(name, _ADDED_SPARK_TYPES[name]) for name in added_columns]
        return ", ".join(f"`{name}` {spark_type}" for name, spark_type in types)
