"""Rows as earlier declarations of their stream read them."""

from dataclasses import replace
from datetime import timedelta

from archiver.delta import fingerprint
from archiver.delta.schema import EarlierDeclaration, StreamSchema
from archiver.formats import JSONL, RecordReading
from archiver.ingest.decoding import DecodedRows, decode_blocks
from archiver.ingest.earlier_readings import read_rows_as_earlier

NONE = timedelta(0)
INTEGERS = StreamSchema("s", {"ts": "timestamp", "v": "bigint"}, "ts", None, (), NONE, NONE)
UNDECLARED = replace(INTEGERS, columns={"ts": "timestamp"})
LINES = [b'{"ts": 0, "v": "95"}', b'{"ts": 1, "v": 95.5}', b'{"ts": 2, "v": 7}']


def decode(schema: StreamSchema) -> DecodedRows:
    return decode_blocks(schema, RecordReading(JSONL), LINES, 1)


def test_each_earlier_declaration_reads_the_rows_that_it_accepts() -> None:
    schema = replace(
        INTEGERS,
        columns={"ts": "timestamp", "v": "double"},
        earlier=(EarlierDeclaration(UNDECLARED, 3), EarlierDeclaration(INTEGERS, 5)),
    )
    readings = read_rows_as_earlier(schema, decode(schema), RecordReading(JSONL))
    assert readings[["declaration", "row"]].tolist() == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)]
    expected_hashes = []
    for declaration in (UNDECLARED, INTEGERS):
        _, hashes = fingerprint(declaration, decode(declaration).table)
        expected_hashes += hashes.tolist()
    assert readings["hash"].tolist() == expected_hashes
    assert readings["ts"].tolist() == [0, 1_000_000, 2_000_000, 0, 2_000_000]


def test_rows_newer_than_those_of_a_declaration_are_not_read_again() -> None:
    schema = replace(INTEGERS, earlier=(EarlierDeclaration(UNDECLARED, 3, newest=0),))
    readings = read_rows_as_earlier(schema, decode(schema), RecordReading(JSONL))
    assert readings["row"].tolist() == [0]


def test_stream_without_earlier_declarations_has_no_readings() -> None:
    assert not len(read_rows_as_earlier(INTEGERS, decode(INTEGERS), RecordReading(JSONL)))
