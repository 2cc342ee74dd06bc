"""Avro and Protobuf messages in Confluent's wire format."""

import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from google.protobuf.timestamp_pb2 import Timestamp

from archiver.delta import StreamSchema
from archiver.errors import InvalidValue, RegistryUnavailable
from archiver.formats import Format, RecordReading
from archiver.ingest.decoding import decode_blocks
from archiver.ingest.decoding.registered_messages import message_parser
from tests.registry import Registry, serving_registry

AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "host", "type": "string"},
        {"name": "n", "type": "long"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "inner",
            "type": [
                "null",
                {"type": "record", "name": "I", "fields": [{"name": "k", "type": "string"}]},
            ],
        },
    ],
}
RECORD = {
    "ts": datetime(2026, 1, 1, 12, 0, 0, 123456, UTC),
    "host": "ä",
    "n": 9007199254740993,
    "price": Decimal("12345678901234.56"),
    "day": date(2026, 1, 2),
    "inner": {"k": "v"},
}
PROTO = """
syntax = "proto3";
package m;
import "common.proto";
import "google/protobuf/timestamp.proto";
message Other { string a = 1; }
message Reading {
  google.protobuf.Timestamp ts = 1;
  Host host = 2;
  int64 n = 3;
  message Inner { bool ok = 1; double v = 2; }
}
"""
COMMON = 'syntax = "proto3"; package m; message Host { string name = 1; }'


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving_registry() as serving:
        serving.add(1, "AVRO", json.dumps(AVRO))
        serving.add(2, "PROTOBUF", PROTO, common="common_proto")
        serving.add_subject("common", COMMON)
        yield serving


def _avro(record: dict[str, Any], number: int = 1) -> bytes:
    content = io.BytesIO()
    schemaless_writer(content, parse_schema(AVRO), record)
    return struct.pack(">bI", 0, number) + content.getvalue()


def test_avro_record_keeps_its_exact_values(registry: Registry) -> None:
    parse = message_parser("avro", registry.url)
    assert parse(_avro(RECORD)) == {
        "ts": "2026-01-01T12:00:00.123456+00:00",
        "host": "ä",
        "n": 9007199254740993,
        "price": "12345678901234.56",
        "day": "2026-01-02",
        "inner": {"k": "v"},
    }
    parse(_avro(RECORD))
    assert registry.requests == ["/schemas/ids/1"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "no schema number"),
        (b'{"host": "a"}', "no schema number"),
        (_avro(RECORD, number=9), "has no schema 9"),
        (_avro(RECORD, number=2), "is of type PROTOBUF, not avro"),
        (_avro(RECORD)[:-3], "not a message of schema 1"),
        (_avro(RECORD) + b"x", "bytes after its end"),
        (struct.pack(">bI", 0, 1) + b"\xff" * 40, "not a message of schema 1"),
    ],
)
def test_message_that_is_none_is_refused_with_the_reason(
    registry: Registry, message: bytes, reason: str
) -> None:
    with pytest.raises(InvalidValue, match=reason):
        message_parser("avro", registry.url)(message)


def _reading(payload: bytes, indexes: bytes) -> bytes:
    return struct.pack(">bI", 0, 2) + indexes + payload


def test_protobuf_message_is_found_by_its_indexes(registry: Registry) -> None:
    parse = message_parser("protobuf", registry.url)
    time = Timestamp()
    time.FromJsonString("2026-01-01T00:00:00Z")
    stored_time = time.SerializeToString()
    seconds = b"\x0a" + bytes([len(stored_time)]) + stored_time
    host, n = b"\x12\x04\x0a\x02" + "ä".encode(), b"\x18" + b"\x81\x80\x80\x80\x80\x80\x80\x10"
    assert parse(_reading(seconds + host + n, b"\x02\x02")) == {
        "ts": "2026-01-01T00:00:00Z",
        "host": {"name": "ä"},
        "n": "9007199254740993",
    }
    assert parse(_reading(b"\x0a\x01x", b"\x00")) == {"a": "x"}  # 0: the first message
    assert parse(_reading(b"\x08\x01", b"\x04\x02\x00")) == {"ok": True, "v": 0.0}
    for indexes in (b"\x02\x10", b"\x02", b"\xff" * 11, b"\x80"):
        with pytest.raises(InvalidValue):
            parse(_reading(b"", indexes))


def test_registry_that_does_not_answer_refuses_no_record(registry: Registry) -> None:
    parse = message_parser("avro", registry.url)
    registry.status = 503
    with pytest.raises(RegistryUnavailable, match="answers with status 503"):
        parse(_avro(RECORD))
    registry.status = 0
    assert parse(_avro(RECORD))["host"] == "ä"
    with pytest.raises(RegistryUnavailable, match="cannot be read"):
        message_parser("avro", "http://127.0.0.1:9")(_avro(RECORD))


def test_messages_become_typed_rows_and_dead_letters(registry: Registry) -> None:
    columns = {"ts": "timestamp", "host": "string", "n": "bigint", "price": "double"}
    schema = StreamSchema("s", columns, "ts", None, (), timedelta(0), timedelta(minutes=5))
    reading = RecordReading(Format("avro", registry=registry.url))
    decoded = decode_blocks(schema, reading, [_avro(RECORD), b"junk", _avro(RECORD)], 5)
    assert decoded.table["n"].to_pylist() == [9007199254740993] * 2
    assert decoded.table["price"].to_pylist() == [12345678901234.56] * 2
    assert json.loads(decoded.table["_extra"][0].as_py()) == {
        "day": "2026-01-02",
        "inner": {"k": "v"},
    }
    assert [(line.line, line.raw) for line in decoded.refused_lines] == [(6, b"junk")]
