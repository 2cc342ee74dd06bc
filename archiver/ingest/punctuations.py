"""Records by which a source says that event time is closed, instead of rows. No I/O.

Such a record has the field that its stream declares, and no event time, so the decoder refuses it
as a row. It counts once its unit has been read: rows of later units are then compared with it, and
whether they are late is the same when a unit is read again.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from archiver.delta import StreamSchema
from archiver.formats import JSONL, RecordReading
from archiver.ingest.closed_keys import ClosedKeys, Key, list_keys
from archiver.ingest.decoding import RefusedLine, decode_blocks
from archiver.times import Micros, duration_to_micros, format_duration, micros_column

# A key is stored in an index, whose entries are limited.
_MAX_KEY_BYTES = 1000


class Punctuations(NamedTuple):
    """What refused lines say of closed time.

    `records`: number of those that close time; `closed`: rows before this event time are late; None:
    there is no such record; `closed_keys`: the same for rows of single keys. `refused_lines`: the
    others.
    """

    records: int
    closed: Micros | None
    closed_keys: ClosedKeys
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
        return Punctuations(0, None, {}, refused_lines)
    latest = now + duration_to_micros(schema.future)
    records = 0
    latest_closed: dict[Key | None, Micros] = {}
    remaining: list[RefusedLine] = []
    for refused in refused_lines:
        closed = _read_closed(refused, schema, reading)
        if closed is None or isinstance(closed, str):
            detail = refused.detail if closed is None else closed
            remaining.append(replace(refused, detail=detail))
        elif closed.ts > latest:
            ahead = f"it closes time more than {format_duration(schema.future)} in the future"
            remaining.append(replace(refused, reason="quarantined", detail=ahead))
        else:
            records += 1
            latest_closed[closed.key] = max(closed.ts, latest_closed.get(closed.key, closed.ts))
    closed_stream = latest_closed.pop(None, None)
    closed_keys = {key: ts for key, ts in latest_closed.items() if key is not None}
    return Punctuations(records, closed_stream, closed_keys, remaining)


def find_punctuation_problem(schema: StreamSchema, record: bytes, now: Micros) -> str | None:
    """Why a JSON record closes no time of a stream that declares punctuation; None: it does."""
    refused = RefusedLine(1, "malformed", "", record)
    read = take_punctuations([refused], schema, RecordReading(JSONL), now)
    return None if read.records else read.refused_lines[0].detail


class _Closed(NamedTuple):
    """An event time that is closed, and for which key; None: for the stream."""

    ts: Micros
    key: Key | None


def _read_closed(
    refused: RefusedLine, schema: StreamSchema, reading: RecordReading
) -> _Closed | str | None:
    """What a record closes; a text: why it closes nothing; None: it is another one."""
    name = schema.punctuation
    assert name is not None
    if refused.reason != "malformed" or name.encode() not in refused.raw:
        return None
    record = _parse(refused.raw)
    if record is None or record.get(name) is None:
        return None
    fields = record.keys() - {name}
    if fields and not _are_key_fields(schema, fields):
        problem = f"a record that closes time has no other field than {name}"
        key = ", ".join(schema.fields_of(column)[0] for column in schema.key)
        return f"{problem}, or, for one key, than {name}, {key}" if key else problem
    (time_field, *_) = schema.fields_of(schema.time)
    line = orjson.dumps({time_field: record[name], **{field: record[field] for field in fields}})
    rows = decode_blocks(schema, reading, [line], 0)  # redacted
    if rows.refused_lines:
        return f"field {name}: {rows.refused_lines[0].detail}"
    ts = int(micros_column(rows.table, schema.time)[0])
    if not fields:
        return _Closed(ts, None)
    (key_values,) = list_keys(rows.table, schema.key)
    texts = [text for text in key_values if text is not None]
    if sum(len(text.encode()) for text in texts) > _MAX_KEY_BYTES:
        return f"the key of a record that closes time is longer than {_MAX_KEY_BYTES} bytes"
    if any("\0" in text for text in texts):
        return "the key of a record that closes time has a NUL character"
    return _Closed(ts, key_values)


def _are_key_fields(schema: StreamSchema, fields: Collection[str]) -> bool:
    """Whether fields of a record are those of the key columns, one for each."""
    of_columns = [schema.present_field(column, fields) for column in schema.key]
    return None not in of_columns and set(of_columns) == set(fields)


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(raw)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
