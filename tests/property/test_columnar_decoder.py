"""Decoding in blocks returns what decoding line by line does, on any lines."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archiver.delta.schema import ARROW_TYPES, StreamSchema
from archiver.formats import CSV, JSONL, Format, RecordReading
from archiver.ingest.decoding import (
    MAX_LINE_BYTES,
    DecodedRows,
    block_decoder,
    decode_blocks,
    decode_lines,
)
from archiver.ingest.decoding.csv_reader import read_csv_block
from archiver.ingest.decoding.json_reader import read_json_block
from tests.property.test_line_decoder import (
    BLANKS,
    HUGE_NUMBERS,
    ODD_TEXTS,
    json_numbers,
    texts,
    values,
)

FIRST = 7  # number of the first line
TS = "2026-01-31T12:00:00Z"
COLUMNS = {f"c_{kind}": kind for kind in sorted(ARROW_TYPES)}
HEADER = ["ts", *COLUMNS, "undeclared"]


def schema_of(**columns: str) -> StreamSchema:
    none = timedelta(0)
    return StreamSchema("s", {"ts": "timestamp", **columns}, "ts", None, (), none, none)


SCHEMA = schema_of(**COLUMNS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two sizes in a few lines."""
    monkeypatch.setattr(block_decoder, "_BLOCK_BYTES", (2_000, 300))
    monkeypatch.setattr(block_decoder, "_MIN_BLOCK_BYTES", 0)
    monkeypatch.setattr(block_decoder, "_MIN_LINEWISE_BYTES", 300)


def comparable(decoded: DecodedRows) -> list[object]:
    """As text, 0.0 and -0.0 differ, and NaN equals NaN."""
    columns = []
    for column in decoded.table.columns:
        plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        columns.append(repr(plain.to_pylist()))
    return [
        decoded.table.schema,
        columns,
        decoded.line_numbers.tolist(),
        list(decoded.raw),
        decoded.refused_lines,
    ]


def assert_equal_results(
    lines: Sequence[bytes],
    record_format: Format = JSONL,
    header: Sequence[str] = (),
    schema: StreamSchema = SCHEMA,
) -> None:
    reading = RecordReading(record_format, tuple(header) if record_format.is_csv else None)
    blockwise = decode_blocks(schema, reading, lines, FIRST)
    linewise = decode_lines(schema, reading, lines, FIRST)
    assert comparable(blockwise) == comparable(linewise)


def record(**fields: Any) -> bytes:
    return json.dumps({"ts": TS, **fields}, ensure_ascii=False).encode("utf-8", "surrogatepass")


REGULAR: dict[str, Any] = {
    "c_string": 'ü\\ "quoted" \n {[',
    "c_boolean": True,
    "c_int": -3,
    "c_bigint": 2**62,
    "c_float": 0.1,
    "c_double": 1.5e-7,
    "c_date": "2026-02-28",
    "c_timestamp": 1_769_860_800.25,
    "undeclared": "text\x7f\t",
    "other": 3,
}
REGULAR_LINES = [
    record(),
    record(**REGULAR),
    json.dumps({"ts": TS, **REGULAR}).encode(),  # with \u escapes
    record(c_timestamp=TS, c_double=5, c_float=16_777_217, c_string=17),
    record(c_int="12", c_bigint="-7", c_double="2.50", c_float="0.3", c_boolean="False"),
    json.dumps({"ts": 1_769_860_800, **REGULAR}, separators=(",", ":")).encode() + b"\r",
]
# What one line may have in place of any of its bytes.
FRAGMENTS = [
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"/", b" ", b"\t", b"\r", b"\n", b"\0"),
    *(b"\x01", b"\x0b", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"'", b'""', b"//", b"/**/"),
    *(b"NaN", b"-NaN", b"Infinity", b"-Infinity", b"Inf", b"nan", b"null", b"true", b"True"),
    *(b"-0", b"-0.0", b"-0e5", b"0", b"00", b"1.", b".5", b"+1", b"1e5", b"1E+05", b"1e400"),
    *(b"-1e400", b"1e-400", b"5e-324", b"2.4703282292062328e-324", b"0x10", b"1_0", b"1e"),
    *(b"9007199254740993", b"9223372036854775807", b"9223372036854775808", b"2147483648"),
    *(b"18446744073709551615", b"18446744073709551616", b"253402300800", b"-2208988801"),
    *(b"1.7976931348623159e308", b"3.4028236e38", b"0.1e1", b"1769860800.1234567"),
    *(b"\\u0000", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\uD83D", b"\\u00", b"\\x41"),
    *(b"\\n", b"\\/", b'\\"', b"\\", b'"ts"', b'"c_int": 1, ', b'"ts": 1, "ts": 2, ', b'"": 1,'),
    *(b"{}", b"[]", b'{"a": 1}', b"[[[[", b"}{", b"} {", b"}\n{", b": [", b'":{', b"} null", b"},"),
    *(b'{"ts":', b'"c_\\u0069nt": 1, ', b'"a": null, ', b'"a": 0.5, ', b'"b": 1, '),
]
fragments = st.sampled_from(FRAGMENTS) | st.binary(max_size=3)


@st.composite
def mutated(draw: st.DrawFn, lines: Sequence[bytes]) -> bytes:
    """A regular line, some bytes of which are replaced."""
    line = draw(st.sampled_from(lines))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        start = draw(st.integers(0, len(line)))
        stop = min(start + draw(st.sampled_from([0, 0, 1, 1, 2, 4, 30])), len(line))
        line = line[:start] + draw(fragments) + line[stop:]
    return line


@given(st.lists(mutated(REGULAR_LINES), max_size=30))
@example([b"null"])
@example([b'{"ts": 0, "c_string": "}', b'{"}'])
@example([b"{} null {}", b"{}"])
@example([b'{"ts": 1}{"ts": 2}', b'{"ts":', b"3}"])
@example([b'{"ts": 1} {"ts": 2}', b'{"ts": 3', b"}"])
@example([b'{"c_string": ' * 100_000 + b"1" + b"}" * 100_000, record()])
@example([b'{"ts": 1, "c_string":', *[b'{"c_string":'] * 50_000])
@example([b'{"ts": 1} ' + b"[" * 100_000, record()])
@example([b"\xef\xbb\xbf" + record(), record()])
@example([record() + b" " * size for size in (0, MAX_LINE_BYTES, MAX_LINE_BYTES - 30)])
@example([])
def test_json_lines_are_decoded_as_one_by_one(lines: list[bytes]) -> None:
    assert_equal_results(lines)


@given(
    st.lists(
        values.map(lambda value: record(**dict.fromkeys([*COLUMNS, "more"], value)))
        | st.dictionaries(st.sampled_from(HEADER), values).map(lambda value: record(**value))
        | st.dictionaries(st.text(), st.text() | st.integers()).map(lambda value: record(**value)),
        max_size=8,
    )
)
def test_json_values_of_any_type_are_decoded_as_one_by_one(lines: list[bytes]) -> None:
    assert_equal_results(lines)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind == "timestamp" else pytest.mark.slow)
        for kind in sorted(ARROW_TYPES)
    ],
)
def test_unusual_texts_are_decoded_as_one_by_one(kind: str) -> None:
    schema = schema_of(x=kind)
    for text in [*ODD_TEXTS, *BLANKS, *HUGE_NUMBERS]:
        for lines in ([record(x=text)], [record(x=text), record(x="1")]):
            assert_equal_results(lines, schema=schema)
        if not {"\n", "\r"} & set(text):
            assert_equal_results([csv_line([TS, text])], CSV, ["ts", "x"], schema)
        assert_equal_results([json.dumps({"ts": text, "x": None}).encode()], schema=schema)
        assert_equal_results([b'{"ts":0,"x":%b}' % text.encode()], schema=schema)


@given(st.lists(st.floats() | st.integers(-(2**70), 2**70), max_size=8))
def test_event_times_in_seconds_are_decoded_as_one_by_one(seconds: list[float]) -> None:
    assert_equal_results([json.dumps({"ts": value}).encode() for value in seconds])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_numbers_are_decoded_as_one_by_one(numbers: list[float]) -> None:
    lines = [record(c_double=number, c_float=number) for number in numbers]
    lines += [record(c_double=format(number, ".25g")) for number in numbers]
    lines += [b'{"ts":0,"c_double":%b}' % format(number, ".30e").encode() for number in numbers]
    assert_equal_results(lines)
    for line in lines:
        assert_equal_results([line])


@given(
    st.sampled_from(["int", "bigint", "float", "double"]),
    st.lists(json_numbers, min_size=1, max_size=8),
)
def test_numbers_of_any_spelling_are_decoded_as_one_by_one(
    kind: str, number_texts: list[str]
) -> None:
    schema = schema_of(x=kind)
    lines = [b'{"ts":0,"x":%b}' % text.encode() for text in number_texts]
    assert_equal_results(lines, schema=schema)
    assert_equal_results([record(x=text) for text in number_texts], schema=schema)
    fields = [csv_line([TS, text]) for text in number_texts]
    assert_equal_results(fields, CSV, ["ts", "x"], schema)
    for line in lines:
        assert_equal_results([line], schema=schema)


def csv_line(row: Sequence[str], quoting: Any = csv.QUOTE_MINIMAL) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="").writerow(row)
    return text.getvalue().encode("utf-8", "surrogatepass")


CSV_LINES = [
    csv_line([TS, *[""] * 9]),
    csv_line(["2026-02-28", "7", "TRUE", "2026-02-28", "8", "9", "10", "x", TS, ""]),
    csv_line([TS, "3", "FALSE", "2026-02-28", "-1", "0.25", "3", "b", TS, "x"], csv.QUOTE_ALL),
    csv_line([TS, "-12", "true", "2026-02-28", "1.5", "0.1", "-3", "plain", TS, "u"]),
    csv_line([TS, "0", "true", "2026-02-28", "1.5", "0.1", "-3", 'a, "b"', TS, "\t"]),
]


@given(
    st.lists(mutated(CSV_LINES), max_size=30),
    st.sampled_from([HEADER, [*HEADER[:-1], "a\"\\'"], [*HEADER[:-1], "ts"], HEADER[:-1], []]),
)
@example([b'"a,b', b'c",d'], ["ts", "c_string"])
@example([b'"%b"' % (b"x" * 140_000)], ["c_string"])
@example([b"", b"2026-01-31", b""], ["ts"])
def test_csv_lines_are_decoded_as_one_by_one(lines: list[bytes], header: list[str]) -> None:
    assert_equal_results(lines, CSV, header)


@given(st.lists(st.lists(texts, min_size=3, max_size=3), max_size=8), st.sampled_from(range(4)))
def test_csv_fields_are_decoded_as_one_by_one(rows: list[list[str]], quoting: int) -> None:
    lines = []
    for row in rows:
        if quoting != csv.QUOTE_NONE:
            lines.append(csv_line([TS, *row], quoting))
        else:
            lines.append(",".join([TS, *row]).encode("utf-8", "surrogatepass"))
    for kind in sorted(ARROW_TYPES):
        assert_equal_results(lines, CSV, ["ts", "x", "a", "b"], schema_of(x=kind, a="string"))


@pytest.mark.parametrize("line", REGULAR_LINES[:-1])
def test_regular_json_is_read_in_blocks(line: bytes) -> None:
    rows = read_json_block(SCHEMA, RecordReading(JSONL), [line] * 3)
    assert rows is not None
    assert len(rows) == 3


@pytest.mark.parametrize("line", CSV_LINES)
def test_regular_csv_is_read_in_blocks(line: bytes) -> None:
    rows = read_csv_block(SCHEMA, RecordReading(CSV, tuple(HEADER)), [line] * 3)
    assert rows is not None
    assert len(rows) == 3


def test_an_irregular_line_is_decoded_alone_or_with_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linewise: list[bytes] = []

    def decode(schema: StreamSchema, reading: RecordReading, lines: list[bytes], first: int) -> Any:
        linewise.extend(lines)
        return decode_lines(schema, reading, lines, first)

    monkeypatch.setattr(block_decoder, "decode_lines", decode)
    lines = [record(c_int=number) for number in range(1_000)]
    lines[500] = b"{"
    assert_equal_results(lines)
    assert 0 < len(linewise) < 20
