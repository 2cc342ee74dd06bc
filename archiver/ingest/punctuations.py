"""Records by which a source says that event time is closed, instead of rows. No I/O.

Such a record has the field that its stream declares, and no event time, so the decoder refuses it
as a row. It counts once its unit has been read: rows of later units are then compared with it, and
whether they are late is the same when a unit is read again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from archiver.delta import StreamSchema
from archiver.formats import JSONL, RecordReading
from archiver.ingest.decoding import RefusedLine, decode_lines
from archiver.times import Micros, duration_to_micros, format_duration, micros_column


class Punctuations(NamedTuple):
    """What refused lines say of closed time.

    `records`: number of those that close time; `closed`: rows before this event time are late; None:
    there is no such record. `refused_lines`: the others.
    """

    records: int
    closed: Micros | None
    refused_lines: Sequence[RefusedLine]


def take_punctuations(
    refused_lines: Sequence[RefusedLine],
    schema: StreamSchema,
    reading: RecordReading,
    now: Micros,
) -> Punctuations:
    """Separate the records that close time from other refused lines.

    `now`: from which `schema.future` is measured. A record that closes a later time is quarantined.
    """
    if schema.punctuation is None or not refused_lines:
        return Punctuations(0, None, refused_lines)
    latest = now + duration_to_micros(schema.future)
    times: list[Micros] = []
    remaining: list[RefusedLine] = []
    for refused in refused_lines:
        closed = _read_closed(refused, schema, reading)
        if closed is None or isinstance(closed, str):
            detail = refused.detail if closed is None else closed
            remaining.append(replace(refused, detail=detail))
        elif closed > latest:
            ahead = f"it closes time more than {format_duration(schema.future)} in the future"
            remaining.append(replace(refused, reason="quarantined", detail=ahead))
        else:
            times.append(closed)
    return Punctuations(len(times), max(times, default=None), remaining)


def find_punctuation_problem(schema: StreamSchema, record: bytes, now: Micros) -> str | None:
    """Why a JSON record closes no time of a stream that declares punctuation; None: it does."""
    refused = RefusedLine(1, "malformed", "", record)
    read = take_punctuations([refused], schema, RecordReading(JSONL), now)
    return None if read.closed is not None else read.refused_lines[0].detail


def _read_closed(
    refused: RefusedLine, schema: StreamSchema, reading: RecordReading
) -> Micros | str | None:
    """The event time that a record closes; a text: why it closes none; None: it is another one."""
    name = schema.punctuation
    assert name is not None
    if refused.reason != "malformed" or name.encode() not in refused.raw:
        return None
    record = _parse(refused.raw)
    if record is None or record.get(name) is None:
        return None
    if len(record) > 1:
        return f"a record that closes time has no other field than {name}"
    (time_field, *_) = schema.fields_of(schema.time)
    line = orjson.dumps({time_field: record[name]})
    rows = decode_lines(schema, reading, [line], 0)
    if rows.refused_lines:
        return f"field {name}: {rows.refused_lines[0].detail}"
    return int(micros_column(rows.table, schema.time)[0])


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(raw)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
