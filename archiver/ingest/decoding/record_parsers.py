"""The fields of records in any format, or why a record has none. No I/O, but for the schemas of a
registry.
"""

import csv
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from archiver.errors import InvalidValue
from archiver.formats import RecordReading, find_pattern
from archiver.ingest.decoding.csv_records import csv_parser, decode_utf8
from archiver.ingest.decoding.invalid_value import abbreviate
from archiver.ingest.decoding.json_records import parse_json
from archiver.ingest.decoding.logfmt import parse_logfmt
from archiver.ingest.decoding.records import MAX_DETAIL_LENGTH, MAX_LINE_BYTES, MAX_RECORD_LINES
from archiver.ingest.decoding.registered_messages import message_parser
from archiver.ingest.decoding.text_reader import read_texts, to_records

_JSON_GROUP = "json"
"""A group of a pattern whose text is a JSON object: its fields are those of the record."""


def parse_records(
    reading: RecordReading,
    records: Sequence[bytes],
    future: int,
    zone: str = "UTC",
    *,
    has_positions: bool = False,
) -> list[dict[str, Any] | str]:
    """The fields of each record, or why it is refused. `future`, `zone`: see `read_texts`;
    `has_positions`: see `parse_json`.
    """
    if find_pattern(reading.format) is not None:
        return _parse_texts(reading, records, future, zone)
    parse = _parser(reading, has_positions)
    parsed: list[dict[str, Any] | str] = []
    for record in records:
        try:
            check_size(record)
            parsed.append(parse(record))
        except (ValueError, csv.Error) as error:
            parsed.append(str(error)[:MAX_DETAIL_LENGTH])
    return parsed


def check_size(record: bytes) -> None:
    """Raise `InvalidValue` for an empty record, and for one that is too long."""
    if not record.strip():
        raise InvalidValue("empty record")
    if len(record) > MAX_LINE_BYTES:
        raise InvalidValue(f"the line is {len(record)} bytes long, the limit is {MAX_LINE_BYTES}")
    if len(record) > MAX_RECORD_LINES and record.count(b"\n") >= MAX_RECORD_LINES:
        raise InvalidValue(f"the record has more than {MAX_RECORD_LINES} lines")


def _parser(reading: RecordReading, has_positions: bool) -> Callable[[bytes], dict[str, Any]]:
    if reading.format.is_csv:
        return csv_parser(reading.fields or (), reading.format.csv)
    if reading.format.name == "logfmt":
        return lambda record: parse_logfmt(decode_utf8(record))
    if reading.format.name in ("avro", "protobuf"):
        assert reading.format.registry is not None
        return message_parser(reading.format.name, reading.format.registry)
    if reading.format.name == "docker":
        return _parse_docker
    return partial(parse_json, has_positions=has_positions)


def _parse_docker(record: bytes) -> dict[str, Any]:
    fields = parse_json(record)
    if isinstance(fields.get("log"), str):
        fields["log"] = fields["log"].removesuffix("\n").removesuffix("\r")
    return fields


def _parse_texts(
    reading: RecordReading, records: Sequence[bytes], future: int, zone: str
) -> list[dict[str, Any] | str]:
    texts: list[str | None] = []
    parsed: list[dict[str, Any] | str] = []
    for record in records:
        try:
            check_size(record)
            texts.append(decode_utf8(record))
            parsed.append("")
        except InvalidValue as error:
            texts.append(None)
            parsed.append(str(error)[:MAX_DETAIL_LENGTH])
    fields = to_records(read_texts(reading, pa.array(texts, pa.string()), future, zone))
    for position, (text, text_fields) in enumerate(zip(texts, fields, strict=True)):
        if text is None:
            continue
        if text_fields is None:
            parsed[position] = f"not a record of format {reading.format.name}: {abbreviate(text)}"
            continue
        parsed[position] = _with_json(text_fields)
    return parsed


def _with_json(fields: dict[str, str]) -> dict[str, Any] | str:
    """The fields with those of the JSON object among them, if there is one."""
    if _JSON_GROUP not in fields:
        return fields
    try:
        inner = parse_json(fields[_JSON_GROUP].encode())
    except InvalidValue as error:
        return f"group {_JSON_GROUP} of the pattern: {error}"[:MAX_DETAIL_LENGTH]
    return {**inner, **{name: text for name, text in fields.items() if name != _JSON_GROUP}}
