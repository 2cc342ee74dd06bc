"""Records as the earlier declarations of their stream read them. No I/O.

A row keeps the identity that it got under the declaration of its time. A record repeats it if that
declaration reads it as the same row, whatever the present one makes of it.
"""

from collections.abc import Sequence

import numpy as np

from archiver.delta import StreamSchema, fingerprint, row_places
from archiver.formats import RecordReading
from archiver.ingest.classify import READING_DTYPE, Array
from archiver.ingest.decoding import DecodedRows, decode_raw, select_raw
from archiver.times import micros_column

_NO_READINGS = np.empty(0, dtype=READING_DTYPE)


def read_rows_as_earlier(
    schema: StreamSchema,
    rows: DecodedRows,
    reading: RecordReading,
) -> Array:
    """The readings of decoded rows (`READING_DTYPE`), numbered by position.

    Rows that a declaration refuses, and rows newer than all that were archived under it, have no
    reading: they repeat none of its rows.
    """
    if not schema.earlier:
        return _NO_READINGS
    parts = [_NO_READINGS]
    ts = micros_column(rows.table, schema.time)
    for number, declaration in enumerate(schema.earlier):
        is_candidate = np.ones(len(ts), dtype=bool)
        if declaration.newest is not None:
            is_candidate = ts <= declaration.newest
        positions = np.flatnonzero(is_candidate)
        if len(positions):
            raw = select_raw(rows.raw, positions.tolist())
            lines = rows.line_numbers[positions]
            readings = read_as_declared(schema, number, raw, reading, lines)
            readings["row"] = positions[readings["row"]]
            parts.append(readings)
    return np.concatenate(parts)


def read_as_declared(
    schema: StreamSchema,
    number: int,
    raw: Sequence[bytes],
    reading: RecordReading,
    line_numbers: Array,
) -> Array:
    """The records that a declaration accepts (`READING_DTYPE`), numbered by position.

    `number`: see `StreamSchema.declaration_numbers`. `line_numbers`: of the records in their unit.
    """
    declaration = schema.declaration(number)
    decoded = decode_raw(declaration, raw, reading)
    place_keys = row_places(declaration, reading.unit, line_numbers[decoded.line_numbers])
    ids, hashes = fingerprint(declaration, decoded.table, place_keys)
    readings = np.empty(len(ids), dtype=READING_DTYPE)
    readings["row"] = decoded.line_numbers
    readings["declaration"] = number
    readings["id"] = np.array(ids, dtype=readings.dtype["id"])
    readings["hash"] = hashes
    readings["ts"] = micros_column(decoded.table, declaration.time)
    return readings
