"""Messages of refused lines and headers; see also the property tests."""

from dataclasses import replace
from datetime import timedelta

import pytest

from archiver.delta.schema import StreamSchema
from archiver.formats import CSV, JSONL, RecordReading
from archiver.ingest.decoding import decode_lines, parse_csv_header

SCHEMA = StreamSchema(
    "s",
    {"ts": "timestamp", "n": "int", "day": "date", "ok": "boolean"},
    "ts",
    None,
    (),
    timedelta(0),
    timedelta(0),
)
TS = b'"ts": "2026-01-31T12:00:00Z"'


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (b"[1]", "the line is not a JSON object"),
        (b"{noon", "not JSON: unexpected character in column 2"),
        (b"{%b, " % TS + b'"n": NaN}', "column n: nan is not an integer"),
        (b'{"host": "\xff"}', "not UTF-8 text"),
        (b"{%b, " % TS + b'"n": true}', "column n: true is not an integer"),
        (b"{%b, " % TS + b'"n": {"a": null}}', 'column n: {"a":null} is not an integer'),
        (b'{"n": 1}', "column ts: event time is missing"),
        (b'{"ts": "noon"}', "column ts: 'noon' is not a timestamp such as 2026-01-31T12:00:00Z"),
        (
            b'{"ts": 1e300}',
            "column ts: 1e+300 seconds since 1970 is not between the years 1900 and 9999",
        ),
        (b'{"ts": true}', "column ts: true is not a timestamp"),
        (b"{%b, " % TS + b'"n": 2147483648}', "column n: 2147483648 is out of range for type int"),
        (b"{%b, " % TS + b'"n": 1.5}', "column n: 1.5 is not an integer"),
        (b"{%b, " % TS + b'"n": "ten"}', "column n: 'ten' is not a number"),
        (
            b"{%b, " % TS + b'"day": "31.1."}',
            "column day: '31.1.' is not a date such as 2026-01-31",
        ),
        (b"{%b, " % TS + b'"ok": "yes"}', "column ok: 'yes' is not a boolean"),
    ],
)
def test_refused_line_names_the_column_and_the_value(line: bytes, detail: str) -> None:
    decoded = decode_lines(SCHEMA, RecordReading(JSONL), [line], 7)
    assert not len(decoded.table)
    (refused,) = decoded.refused_lines
    assert (refused.line, refused.reason, refused.detail) == (7, "malformed", detail)


def test_csv_line_with_missing_fields_is_refused() -> None:
    lines = [b"2026-01-31,1", b"2026-01-31"]
    decoded = decode_lines(SCHEMA, RecordReading(CSV, ("ts", "n")), lines, 2)
    assert decoded.line_numbers.tolist() == [2]
    (refused,) = decoded.refused_lines
    assert (refused.line, refused.detail) == (3, "the line has 1 fields, the header has 2")


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        (
            (),
            "the header line of the CSV file is no record: it is not UTF-8 text, or has a quote "
            "that is not closed or is followed by text",
        ),
        (
            ("ts", "n", "n"),
            "the header of the CSV file has the field 'n' twice",
        ),
    ],
)
def test_lines_after_an_invalid_csv_header_are_refused_for_it(
    fields: tuple[str, ...], detail: str
) -> None:
    reading = RecordReading(CSV, fields)
    (refused,) = decode_lines(SCHEMA, reading, [b"2026-01-31,1,2"], 2).refused_lines
    assert refused.detail == detail


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (b'"a,1', "a quoted field has no closing quote"),
        (b'"a"b,1', "a closing quote is followed by text; a quote in quoted text is doubled"),
        (b'"a"\rb,1', "a carriage return within the line; lines end with LF or CRLF"),
        (b"\xff,1", "not UTF-8 text"),
    ],
)
def test_invalid_csv_is_described_in_lines_and_headers(line: bytes, fact: str) -> None:
    (refused,) = decode_lines(SCHEMA, RecordReading(CSV, ("ts", "n")), [line], 2).refused_lines
    assert refused.detail == fact
    with pytest.raises(ValueError, match=fact):
        parse_csv_header(line)


def test_duplicate_field_name_in_the_header_is_rejected() -> None:
    assert parse_csv_header(b"ts, host") == ["ts", "host"]
    with pytest.raises(ValueError, match="twice"):
        parse_csv_header(b"ts,host,ts")


@pytest.mark.parametrize(
    "time",
    [
        b'"9999-12-31T23:59:59.999999Z"',
        b'"9999-12-31T23:59:59.999999999Z"',
        b'"9999-12-31T22:59:59.999999-01:00"',
    ],
)
def test_last_microsecond_of_the_year_9999_is_a_time(time: bytes) -> None:
    decoded = decode_lines(SCHEMA, RecordReading(JSONL), [b'{"ts": %b}' % time], 1)
    assert decoded.table["ts"].cast("int64").to_pylist() == [253402300800 * 10**6 - 1]


@pytest.mark.parametrize(
    "time", [b"253402300800", b'"9999-12-31T23:00:00-01:00"', b'"1899-12-31T23:59:59.999999Z"']
)
def test_time_beyond_the_years_is_refused(time: bytes) -> None:
    (refused,) = decode_lines(SCHEMA, RecordReading(JSONL), [b'{"ts": %b}' % time], 1).refused_lines
    assert refused.detail.endswith("is not between the years 1900 and 9999")


def test_integer_beyond_64_bits_keeps_its_digits_as_text() -> None:
    schema = replace(SCHEMA, columns={"ts": "timestamp", "id": "string"})
    numbers = [
        "123456789012345678901234567890",
        "123456789012345678901234567891",
        "-9223372036854775809",
        "18446744073709551616",
        "1e19",
        "1e3",
        "7",
    ]
    lines = [b'{"ts": 0, "id": %b}' % number.encode() for number in numbers]
    texts = decode_lines(schema, RecordReading(JSONL), lines, 1).table["id"].to_pylist()
    assert texts == [*numbers[:4], "1e+19", "1000.0", "7"]


def test_integers_beyond_64_bits_keep_their_digits() -> None:
    wide = 123456789012345678901234567890
    columns = {"ts": "timestamp", "text": "string", "number": "double"}
    schema = replace(SCHEMA, columns=columns)
    line = b'{"ts":"2026-11-20T10:00:00Z","text":{"n":%d,"x":NaN},"number":%d,"u":[-%d,1e25]}'
    rows = decode_lines(schema, RecordReading(JSONL), [line % (wide, wide, wide)], 1)
    assert not rows.refused_lines
    (row,) = rows.table.to_pylist()
    assert row["text"] == f'{{"n":{wide},"x":NaN}}'
    assert row["number"] == float(wide)
    assert row["_extra"] == f'{{"u":[-{wide},1e+25]}}'


def test_records_that_are_arrays_have_fields_by_position() -> None:
    fields = {"ts": ("[0]",), "n": ("[1].n",), "text": ("[2]",)}
    columns: dict[str, str] = {"ts": "timestamp", "n": "int", "text": "string"}
    schema = replace(SCHEMA, columns=columns, fields=fields)
    wide = "9" * 30
    lines = [
        f'["2026-01-31T12:00:00Z", {{"n": 1}}, {wide}, "x"]'.encode(),
        b'["2026-01-31T12:00:00Z"]',
        b"[]",
    ]
    decoded = decode_lines(schema, RecordReading(JSONL), lines, 1)
    rows = decoded.table.select(["n", "text", "_extra"]).to_pylist()
    assert rows == [
        {"n": 1, "text": wide, "_extra": '{"[3]":"x"}'},
        {"n": None, "text": None, "_extra": None},
    ]
    assert [refused.detail for refused in decoded.refused_lines] == [
        "column ts: event time is missing"
    ]
