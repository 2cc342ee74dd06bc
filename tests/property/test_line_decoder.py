"""Each line is decoded to a typed row or refused, independently of the lines around it."""

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archiver.delta.schema import ARROW_TYPES, StreamSchema
from archiver.formats import CSV, JSONL, RecordReading
from archiver.ingest.decoding import MAX_LINE_BYTES, DecodedRows, decode_lines, parse_csv_header
from archiver.times import to_micros

TS = "2026-01-31T12:00:00Z"
KINDS = sorted(ARROW_TYPES)
FIRST = 7  # number of the first line


def schema_of(**columns: str) -> StreamSchema:
    none = timedelta(0)
    return StreamSchema("s", {"ts": "timestamp", **columns}, "ts", None, (), none, none)


def jsonl(schema: StreamSchema, lines: Sequence[bytes]) -> DecodedRows:
    return decode_lines(schema, RecordReading(JSONL), lines, FIRST)


def outcome(decoded: DecodedRows) -> dict[int, Any]:
    """By line number: the values as text, or "refused".

    As text, 0.0 and -0.0 differ, and NaN equals NaN.
    """
    columns = [
        column.cast(pa.int64()).to_pylist()
        if pa.types.is_timestamp(column.type)
        else column.to_pylist()
        for column in decoded.table.columns
    ]
    rows = [repr(row) for row in zip(*columns, strict=True)]
    outcomes: dict[int, Any] = dict(zip(decoded.line_numbers.tolist(), rows, strict=True))
    for refused in decoded.refused_lines:
        assert refused.line not in outcomes
        assert refused.reason == "malformed"
        outcomes[refused.line] = "refused"
    return outcomes


# Texts that two parsers may convert differently.
ODD_TEXTS = (
    "0x1F -0X1f +1 -0 007 1_0 1. .5 1e5 1E+5 1e400 -1e-400 9e18 "
    "9223372036854775807 9223372036854775808 2147483648 "
    "-9223372036854775808 -9223372036854775809 -2147483648 -2147483649 -02147483648 "
    "95.0 95.5 1e3 1E3 1e-1 10e-1 -0.0 0e5 -0e-5 +5.0 5.e0 .0 00 1e18 9.223372036854775807e18 "
    "9.2233720368547758070e18 9223372036854775807.0 9223372036854775807.5 0.1e1 1e999999999999 "
    "9007199254740993.0 9007199254740993 16777217 16777217.0 1.00000005960464477540 1,000 1e39 "
    "3.4028235677973366e38 3.4028235677973367e38 1.7976931348623159e308 1e-46 7.1e-46 1e-999999 "
    "nan NaN -nan nan(1) NAN(x) inf -Infinity ٣ true FALSE None null 1d 1.0 1.5 "
    "0000-01-01 0001-01-01 9999-12-31 20260131 2026-W05-6 2026-01-31 2026-02-30 "
    "2026-01-31T12 2026-01-31T12:00 2026-01-31T12:00:00 2026-01-31T24:00Z "
    "2026-01-31T12:00:60Z 2026-01-31T12:00:00z 2026-01-31T12:00:00.1Z "
    "2026-01-31T12:00:00.123456Z 2026-01-31T12:00:00.1234567Z 2026-01-31T12:00:00,5Z "
    "2026-01-31T12:00:00+01 2026-01-31T12:00:00-0130 2026-01-31T12:00:00+23:59 "
    "2026-01-31T12:00:00+24:00 0000-01-01T00:00:00Z 0001-01-01T00:00:00+14:00 "
    "9999-12-31T23:59:59-14:00 1969-12-31T23:59:59.999999Z 00000-01-01 -001-01-01 "
    "9999-12-31T23:59:59.999999Z 9999-12-31T23:59:59Z 9999-12-31T23:00:00-01:00"
).split()
BLANKS = ["", " ", " 1", "1 ", "1\n", "2026-01-31 12:00:00Z", "2026-01-31T12:00:00 Z"]
HUGE_NUMBERS = ["1" + "0" * 400, "9" * 5000, "0." + "0" * 400 + "1"]


def halfway_to_next(single: float) -> str:
    """The middle between a float32 and the next one, or a little more; as text."""
    upper = float(np.nextafter(np.float32(single), np.float32("inf")))
    middle = format(Decimal((single + min(upper, 2.0**128)) / 2), "f")
    if single.is_integer():
        return middle
    return f"{middle if '.' in middle else middle + '.0'}00001"


texts = st.one_of(
    st.sampled_from([*ODD_TEXTS, *BLANKS]),
    st.text(),
    st.integers().map(str),
    st.floats().map(str),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())).map(str),
    st.datetimes().map(datetime.isoformat),
    st.dates().map(str),
    st.from_regex(r"\A[-+ ]?[0-9]{0,20}\.?[0-9]{0,9}([eE][-+]?[0-9]{1,3})?\Z"),
    st.from_regex(r"\A-?[0-9]{1,20}\.?0{0,9}([eE][-+]?[0-9])?\Z"),
)
# Numbers as they may be spelled in JSON; Python's own spelling of a float has no more digits.
json_numbers = st.one_of(
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,2})?\Z"),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,20})\.0{1,9}([eE][-+]?[0-9])?\Z"),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: format(number, ".30e")),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(halfway_to_next),
)
numbers = st.one_of(
    st.integers(-10, 10),
    st.integers(-(2**70), 2**70),
    st.sampled_from(
        [
            2**31,
            -(2**31) - 1,
            2**53 + 1,
            2**63,
            -(2**63) - 1,
            2**64 - 1,
            2**64,
            10**300,
            253402300800,
        ]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
)
plain = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.one_of(
    plain,
    st.recursive(
        plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4
    ),
)


def nearest_single(text: str) -> float:
    """The float32 nearest to a decimal text, ties to even; infinite on overflow."""
    exact = Fraction(text)
    with np.errstate(over="ignore"):
        near = np.float32(float(max(min(exact, Fraction(2**130)), -Fraction(2**130))))
    below = np.nextafter(near, np.float32("-inf"))
    above = np.nextafter(near, np.float32("inf"))

    def distance(single: np.float32) -> tuple[Fraction, int]:
        value = float(single)
        if math.isinf(value):
            value = math.copysign(2.0**128, value)
        return abs(Fraction(value) - exact), int(single.view(np.int32)) & 1

    return float(min((near, below, above), key=distance))


def record(**fields: Any) -> bytes:
    return json.dumps({"ts": TS, **fields}, ensure_ascii=False).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_value_is_converted_independently_of_its_neighbours(
    kind: str, data: st.DataObject
) -> None:
    """Values of one type are converted at once; with a list among them, one by one."""
    value_strategy = data.draw(st.sampled_from([texts, numbers, plain, values]))
    lines = [
        record(x=value)
        for value in data.draw(st.lists(st.none() | value_strategy, min_size=1, max_size=6))
    ]
    schema = schema_of(x=kind)
    outcomes = outcome(jsonl(schema, lines))
    beside_list = outcome(jsonl(schema, [*lines, record(x=[])]))
    del beside_list[FIRST + len(lines)]
    separately = {
        FIRST + i: outcome(decode_lines(schema, RecordReading(JSONL), [line], FIRST + i))[FIRST + i]
        for i, line in enumerate(lines)
    }
    assert outcomes == beside_list == separately


@pytest.mark.parametrize("kind", KINDS)
def test_unusual_texts_are_converted_alike_by_arrow_and_python(kind: str) -> None:
    schema = schema_of(x=kind)
    for text in [*ODD_TEXTS, *BLANKS, *HUGE_NUMBERS]:
        alone_outcomes = outcome(jsonl(schema, [record(x=text)]))
        beside_list = outcome(jsonl(schema, [record(x=text), record(x=[])]))
        assert alone_outcomes[FIRST] == beside_list[FIRST], text[:60]


@given(st.datetimes(min_value=datetime(1900, 1, 2), timezones=st.none() | st.timezones()))
def test_timestamps_are_converted_exactly(moment: datetime) -> None:
    """A timestamp without a time zone is in UTC."""
    if moment.tzinfo is not None:
        offset = moment.utcoffset() or timedelta(0)
        moment = moment.replace(tzinfo=timezone(timedelta(minutes=offset // timedelta(minutes=1))))
    decoded = jsonl(schema_of(), [json.dumps({"ts": moment.isoformat()}).encode()])
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    assert decoded.table["ts"].cast(pa.int64()).to_pylist() == [to_micros(aware)]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none()),
    st.lists(st.floats(allow_nan=False) | st.none()),
)
def test_numbers_are_converted_exactly(
    integers: list[int | None], floats: list[float | None]
) -> None:
    finite = [f for f in floats if f is None or abs(f) != float("inf")]
    lines = (
        [record(n=n) for n in integers]
        + [record(x=x) for x in finite]
        + [record(x=x and repr(x)) for x in floats]
    )
    decoded = jsonl(schema_of(n="bigint", x="double"), lines)
    assert not decoded.refused_lines
    assert decoded.table["n"].to_pylist()[: len(integers)] == integers
    assert decoded.table["x"].to_pylist()[len(integers) :] == [*finite, *floats]


@pytest.mark.parametrize("kind", ["int", "bigint"])
@given(st.lists(json_numbers | st.integers(-(2**64), 2**64).map(str), min_size=1, max_size=4))
@example(["-9223372036854775808", "-9223372036854775809", "9223372036854775807"])
@example(["9223372036854775807.0", "9223372036854775808.0", "-2147483649.0", "1e18", "1e19"])
@example(["9007199254740993.0", "95.0", "95.5", "1e3", "0e5", "-0", "-0.0", "10e-1", "1e-1"])
def test_integers_are_exact_or_refused(kind: str, number_texts: list[str]) -> None:
    bits = 31 if kind == "int" else 63
    expected: dict[int, int] = {}
    for index, text in enumerate(number_texts):
        exact = Fraction(text)
        if exact.denominator == 1 and -(2**bits) <= exact < 2**bits:
            expected[FIRST + index] = int(exact)
    lines = [b'{"ts":0,"x":%b}' % text.encode() for text in number_texts]
    fields = [b"2026-01-31,%b" % text.encode() for text in number_texts]
    schema = schema_of(x=kind)
    for decoded in (
        jsonl(schema, lines),
        jsonl(schema, [record(x=text) for text in number_texts]),
        decode_lines(schema, RecordReading(CSV, ("ts", "x")), fields, FIRST),
    ):
        numbers = decoded.table["x"].to_pylist()
        assert dict(zip(decoded.line_numbers.tolist(), numbers, strict=True)) == expected
        assert all(
            "is not an integer" in line.detail or "is out of range" in line.detail
            for line in decoded.refused_lines
        )


@pytest.mark.parametrize("kind", ["float", "double"])
@given(st.lists(json_numbers, min_size=1, max_size=4))
@example(["1e39", "3.4028235677973366e38", "3.4028235677973367e38", "16777217", "16777217.0"])
@example(["1.00000005960464477540", "1.000000059604644775390625", "7.1e-46", "1e-46"])
@example(["1.7976931348623159e308", "-1.7976931348623159e308", "1e400", "1" + "0" * 400])
def test_floats_are_the_nearest_value_or_refused(kind: str, number_texts: list[str]) -> None:
    expected: dict[int, float] = {}
    for index, text in enumerate(number_texts):
        number = nearest_single(text) if kind == "float" else float(text)
        if not math.isinf(number):
            expected[FIRST + index] = number
    lines = [b'{"ts":0,"x":%b}' % text.encode() for text in number_texts]
    schema = schema_of(x=kind)
    for decoded in (jsonl(schema, lines), jsonl(schema, [record(x=text) for text in number_texts])):
        numbers = decoded.table["x"].to_pylist()
        assert dict(zip(decoded.line_numbers.tolist(), numbers, strict=True)) == expected
        assert all("out of range" in line.detail for line in decoded.refused_lines)


INVALID_JSON = [
    b"{",
    b'{"ts": "2026-01-31T12:00:00Z"',
    b"\xff\xfe",
    b'{"x": NaN}',
    b'{"s": "\\ud800"}',
]
NOT_AN_OBJECT = [b"[1]", b"3", b'"ts"', b"null"]
INVALID_TIME = [
    b'{"x": 1}',
    b'{"ts": null}',
    b'{"ts": "yesterday"}',
    b'{"ts": 1e300}',
    b'{"ts": true}',
]
INVALID_NUMBER = [record(x="one"), record(x=2**80), record(x={"a": [1]}), record(x=1.5)]
INVALID = [*INVALID_JSON, *NOT_AN_OBJECT, *INVALID_TIME, *INVALID_NUMBER]
VALID = [
    record(),
    record(x=1),
    record(x="2", s="ü"),
    record(s=[1, {"a": None}]),
    record(other={"b": 1}, x=None),
]


@given(st.lists(st.sampled_from([*VALID, *INVALID]), max_size=12))
@example(INVALID)
def test_an_invalid_line_is_refused_alone(lines: list[bytes]) -> None:
    schema = schema_of(x="bigint", s="string")
    decoded = jsonl(schema, lines)
    invalid = [FIRST + i for i, line in enumerate(lines) if line not in VALID]
    assert [r.line for r in decoded.refused_lines] == invalid
    assert [r.raw for r in decoded.refused_lines] == [lines[number - FIRST] for number in invalid]
    assert all(r.detail and len(r.detail) < 400 for r in decoded.refused_lines)
    assert decoded.line_numbers.tolist() == [
        FIRST + i for i, line in enumerate(lines) if line in VALID
    ]
    assert decoded.raw == [line for line in lines if line in VALID]
    assert (
        list(outcome(jsonl(schema, decoded.raw)).values())
        == list(outcome(decoded).values())[: len(decoded.raw)]
    )


@pytest.mark.parametrize("depth", [100, 200, 300, 900, 2000, 100_000])
@pytest.mark.parametrize("field", ["s", "undeclared"])
def test_deep_nesting_does_not_affect_other_lines(field: str, depth: int) -> None:
    deep = record()[:-1] + f', "{field}": '.encode() + b"[" * depth + b"]" * depth + b"}"
    decoded = jsonl(schema_of(s="string"), [record(s="before"), deep, record(s="after")])
    assert sorted(outcome(decoded)) == [FIRST, FIRST + 1, FIRST + 2]
    assert {FIRST, FIRST + 2} <= set(decoded.line_numbers.tolist())
    if FIRST + 1 in decoded.line_numbers:
        assert depth < 300
        assert (
            decoded.table.column("s" if field == "s" else "_extra")[1].as_py().count("[") == depth
        )


def test_a_too_long_line_is_refused_alone() -> None:
    fits, too_long = (
        record() + b" " * (size - len(record())) for size in (MAX_LINE_BYTES, MAX_LINE_BYTES + 1)
    )
    decoded = jsonl(schema_of(), [fits, too_long, fits])
    assert decoded.line_numbers.tolist() == [FIRST, FIRST + 2]
    assert [(r.line, len(r.raw)) for r in decoded.refused_lines] == [(FIRST + 1, MAX_LINE_BYTES)]


lines_of_anything = st.lists(
    st.one_of(
        st.binary(min_size=1),
        st.text(min_size=1).map(lambda t: t.encode("utf-8", "surrogatepass")),
        values.map(lambda v: json.dumps(v).encode()),
        values.map(lambda v: record(x=v, y=v, s=v, other=v)),
        st.dictionaries(st.sampled_from(["ts", "x", "y", "s", "z"]), values).map(
            lambda v: json.dumps(v).encode()
        ),
    ).filter(lambda line: line.strip()),
    max_size=8,
)


@given(lines_of_anything, st.sampled_from(KINDS))
def test_any_line_is_decoded_or_refused(lines: list[bytes], kind: str) -> None:
    schema = schema_of(x=kind, y="timestamp", s="string")
    for decoded in (
        jsonl(schema, lines),
        decode_lines(schema, RecordReading(CSV, ("ts", "x", "s")), lines, FIRST),
    ):
        assert sorted(outcome(decoded)) == [FIRST + i for i in range(len(lines))]
        assert decoded.raw == [lines[number - FIRST] for number in decoded.line_numbers]
        assert all(to_micros(datetime.min.replace(tzinfo=UTC)) <= ts for ts in event_times(decoded))


def event_times(decoded: DecodedRows) -> list[int]:
    micros: list[int] = decoded.table["ts"].cast(pa.int64()).to_pylist()
    return micros


@given(st.dictionaries(st.text(), values))
def test_undeclared_fields_are_stored_in_extra(fields: dict[str, Any]) -> None:
    extra = {name: value for name, value in fields.items() if name not in ("ts", "x")}
    decoded = jsonl(schema_of(x="string"), [record(**fields | {"ts": TS})])
    for text in decoded.table["_extra"].to_pylist():
        stored = json.loads(text) if text is not None else {}
        assert json.dumps(stored, sort_keys=True) == json.dumps(extra, sort_keys=True)


fields = st.one_of(texts, st.text(alphabet="ab, ;\"'\\\t")).filter(
    lambda t: not {"\n", "\r"} & set(t)
)


@given(st.lists(st.lists(fields, min_size=2, max_size=2), max_size=5), st.sampled_from(KINDS))
def test_csv_quotes_do_not_change_values(rows: list[list[str]], kind: str) -> None:
    schema, header = schema_of(x=kind), ["ts", "x", "more"]
    quoted = [csv_line([TS, *row], csv.QUOTE_ALL) for row in rows]
    as_needed = [csv_line([TS, *row], csv.QUOTE_MINIMAL) for row in rows]
    expected = outcome(decode_lines(schema, RecordReading(CSV, tuple(header)), quoted, FIRST))
    assert (
        outcome(decode_lines(schema, RecordReading(CSV, tuple(header)), as_needed, FIRST))
        == expected
    )


@given(st.lists(st.tuples(fields, fields), max_size=5), st.permutations(["ts", "x", "more"]))
def test_csv_and_json_lines_decode_to_the_same_rows(
    rows: list[tuple[str, str]], header: list[str]
) -> None:
    """An empty CSV field equals null; undeclared columns are stored."""
    schema = schema_of(x="string")
    records = [{"ts": TS, "x": x, "more": more} for x, more in rows]
    as_csv = [csv_line([record[name] for name in header], csv.QUOTE_MINIMAL) for record in records]
    as_json = [
        json.dumps({name: record[name] or None for name in header}).encode() for record in records
    ]
    assert outcome(
        decode_lines(schema, RecordReading(CSV, tuple(header)), as_csv, FIRST)
    ) == outcome(jsonl(schema, as_json))


def csv_line(row: Sequence[str], quoting: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="").writerow(row)
    return text.getvalue().encode()


@given(st.text().map(str.encode) | st.binary())
@example(b'ts,"x')
@example(b"\xff,x")
@example(b"x,x")
def test_an_invalid_header_raises_value_error(line: bytes) -> None:
    try:
        names = parse_csv_header(line)
    except ValueError:
        return
    assert len(set(names)) == len(names)
