"""Decoded rows between two tasks: Arrow tables as bytes, which Spark stores without parsing them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from archiver.delta import ENTRY_DTYPE, StreamSchema
from archiver.ingest.classify import READING_DTYPE, Array
from archiver.times import micros_column

RAW_COLUMN = "_raw"
_ID_TYPE = pa.binary(16)
_ADDED_FIELDS = (
    pa.field("_id", _ID_TYPE),
    pa.field("_hash", pa.int64()),
    pa.field("_unit", pa.int32()),
    pa.field("_line", pa.int64()),
)


@dataclass(frozen=True)
class Blob:
    """Consecutive rows of one stream in the order of arrival.

    `segments`: the positions of the segments among those of the task, and their numbers of rows.
    `content`: the declared columns, `_extra`, the identity and the place of each row; `_unit` is the
    position of its unit in the batch. `readings`: of earlier declarations, see
    `archiver.ingest.earlier_readings`, by position in the blob.
    """

    stream: str
    segments: Sequence[tuple[int, int]]
    content: bytes
    readings: bytes

    def read_readings(self) -> Array:
        """The readings of the rows by earlier declarations."""
        return np.frombuffer(self.readings, dtype=READING_DTYPE)


def pack(
    stream: str,
    segments: Sequence[tuple[int, int]],
    tables: Sequence[pa.Table],
    readings: Sequence[Array],
) -> Blob:
    """A blob of tables made by `with_places`. `readings`: by position in the blob."""
    rows = pa.concat_tables(tables).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content = sink.getvalue().to_pybytes()
    return Blob(stream, tuple(segments), content, np.concatenate(readings).tobytes())


def with_places(
    rows: pa.Table, ids: Sequence[bytes], hashes: Array, unit: int, lines: Array
) -> pa.Table:
    """Rows of a unit with their identities and places."""
    columns = (
        pa.array(ids, _ID_TYPE),
        pa.array(hashes, pa.int64()),
        pa.repeat(pa.scalar(unit, pa.int32()), len(rows)),
        pa.array(lines, pa.int64()),
    )
    for field, values in zip(_ADDED_FIELDS, columns, strict=True):
        rows = rows.append_column(field, values)
    return rows


def with_raw(rows: pa.Table, raw: Sequence[bytes]) -> pa.Table:
    """Rows with the bytes of their records, which cannot be read again."""
    return rows.append_column(RAW_COLUMN, pa.array(raw, pa.binary()))


def unpack(blob: Blob) -> pa.Table:
    """The rows of a blob."""
    return pa.ipc.open_stream(blob.content).read_all()


def read_entries(rows: pa.Table, unit_ids: Sequence[int]) -> Array:
    """Index entries of unpacked rows. `unit_ids`: the ledger ids of the units of the batch."""
    entries = np.empty(len(rows), dtype=ENTRY_DTYPE)
    if len(rows):
        entries["id"] = _read_ids(rows)
        entries["hash"] = rows["_hash"].to_numpy()
        entries["unit"] = np.array(unit_ids, dtype="i8")[unit_positions(rows)]
        entries["line"] = rows["_line"].to_numpy()
    return entries


def _read_ids(rows: pa.Table) -> Array:
    column = rows["_id"].combine_chunks()
    values = np.frombuffer(column.buffers()[1], dtype="S16")
    return values[column.offset : column.offset + len(column)]


def unit_positions(rows: pa.Table) -> Array:
    """The position of the unit of each row in the batch."""
    positions: Array = rows["_unit"].to_numpy()
    return positions


def event_times(rows: pa.Table, schema: StreamSchema) -> Array:
    """The event time of each row in microseconds."""
    return micros_column(rows, schema.time)
