"""Records of any format: blocks and single records give the same rows."""

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archiver.delta import StreamSchema
from archiver.formats import JSONL, CsvDialect, Format, RecordReading, TimeReading
from archiver.ingest.decoding import block_decoder, decode_blocks, decode_lines, text_reader
from archiver.ingest.decoding.json_reader import read_json_block
from archiver.ingest.decoding.text_block_reader import read_text_block
from archiver.ingest.decoding.text_reader import read_texts, to_records
from tests.formats import CLOCK, declare
from tests.property.test_columnar_decoder import comparable, mutated

FIELDS = ("host.name", "log.level", "a.b.c", "tags", "n", "tags[0]")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two sizes in a few records."""
    monkeypatch.setattr(block_decoder, "_BLOCK_BYTES", (3_000, 500))
    monkeypatch.setattr(block_decoder, "_MIN_BLOCK_BYTES", 0)
    monkeypatch.setattr(block_decoder, "_MIN_LINEWISE_BYTES", 500)


def assert_same(schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes]) -> None:
    blockwise = decode_blocks(schema, reading, lines, 3)
    linewise = decode_lines(schema, reading, lines, 3)
    assert comparable(blockwise) == comparable(linewise)


scalars = st.one_of(
    st.integers(-9, 2**63 - 1),
    st.booleans(),
    st.sampled_from(["", "x", 'q"\\\n', "ü", "1"]),
    st.none(),
    st.floats(allow_nan=False),
)
nested = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "level", "b", "c", "x.y"]), inner, max_size=3)
    ),
    max_leaves=6,
)
objects = st.dictionaries(
    st.sampled_from(["host", "host.name", "log", "a", "tags", "n", "log.level", "other"]),
    nested,
    max_size=4,
)
nested_schemas = st.builds(
    lambda fields, kind: declare(
        {"x": "string", "y": kind}, {name: tuple(names) for name, names in fields.items()}
    ),
    st.fixed_dictionaries(
        {
            "x": st.lists(st.sampled_from(FIELDS), min_size=1, max_size=2, unique=True),
            "y": st.lists(st.sampled_from(FIELDS), min_size=1, max_size=1),
        }
    ),
    st.sampled_from(["string", "bigint", "double", "boolean"]),
)


@given(nested_schemas, st.lists(objects, min_size=1, max_size=4), st.booleans())
def test_nested_json_blocks_equal_lines(
    schema: StreamSchema, rows: list[dict[str, Any]], is_uniform: bool
) -> None:
    if is_uniform:
        rows = rows[:1] * 4
    lines = [orjson.dumps({"ts": "2026-01-01T00:00:00Z", **row}) for row in rows]
    assert_same(schema, RecordReading(JSONL), lines)


NESTED = b'{"ts":"2026-01-01T00:00:00Z","host":{"name":"a","ip":[1,2]},"a":{"b":{"c":"x"}},"n":1}'


@given(st.lists(mutated([NESTED]), max_size=12))
@example([b'{"ts":1,"n":"}', b'{"}{}', NESTED])
@example([b'{"ts":1,"a":{"b":{}', b'{"c":1}}', NESTED])
@example([b'{"ts":1,"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}"])
def test_mutated_nested_json_is_decoded_as_one_by_one(lines: list[bytes]) -> None:
    schema = declare({"x": "string", "n": "bigint"}, {"x": ("host.name",)})
    assert_same(schema, RecordReading(JSONL), lines)


@given(objects, st.data(), st.sampled_from(["string", "bigint", "timestamp"]))
def test_records_of_one_shape_without_some_values_are_decoded_as_one_by_one(
    row: dict[str, Any], data: st.DataObject, kind: str
) -> None:
    def vary(value: Any) -> Any:
        """The value with some parts null, or left out."""
        if isinstance(value, dict):
            kept = {name: vary(inner) for name, inner in value.items()}
            return {name: inner for name, inner in kept.items() if data.draw(st.integers(0, 9))}
        if isinstance(value, list):
            return [vary(inner) for inner in value]
        return data.draw(st.sampled_from([value, value, value, None]))

    rows = [{"ts": "2026-01-01T00:00:00Z", **vary(row)} for _ in range(3)]
    schema = declare({"host": "string", "n": kind, "a": "string"})
    assert_same(schema, RecordReading(JSONL), list(map(orjson.dumps, rows)))


SPARSE_SCHEMA = declare(
    {"unit": "string", "host": "string", "n": "bigint", "object": "string"},
    {"unit": ("UNIT", "_UNIT", "o.unit"), "host": ("o.host.name",), "object": ("object",)},
)
sparse_objects = st.fixed_dictionaries(
    {"ts": st.just("2026-01-01T00:00:00Z")},
    optional={
        "UNIT": st.sampled_from(["a", 'q"', "2026-01-01"]),
        "_UNIT": st.sampled_from(["b", "2026-01-01T00:00:00Z", "ends,"]),
        "n": st.integers(-3, 3),
        "extra": st.sampled_from(["x,", "2026-01-01"]),
        "more": st.booleans(),
        "object": st.fixed_dictionaries({}, optional={"a": st.integers(0, 3), "l": st.just([])}),
        "list": st.lists(st.fixed_dictionaries({}, optional={"z": st.just("2026-01-01")})),
        "o": st.fixed_dictionaries(
            {},
            optional={
                "host": st.fixed_dictionaries(
                    {}, optional={"name": st.just("h"), "id": st.just(1)}
                ),
                "id": st.integers(0, 9),
            },
        ),
    },
)


@given(st.lists(sparse_objects, min_size=1, max_size=8), st.sampled_from([None, "UNIT", "extra"]))
def test_records_with_different_fields_are_decoded_as_one_by_one(
    rows: list[dict[str, Any]], null: str | None
) -> None:
    if null is not None:
        rows[-1][null] = None
    assert_same(SPARSE_SCHEMA, RecordReading(JSONL), list(map(orjson.dumps, rows)))


@given(st.lists(sparse_objects, min_size=1, max_size=8), st.integers(0, 8))
def test_a_few_records_with_nulls_are_decoded_as_one_by_one(
    rows: list[dict[str, Any]], position: int
) -> None:
    lines = [orjson.dumps(row) for row in rows for _ in range(4)]
    lines.insert(position, TIME + b'"UNIT":null,"extra":null,"o":{"host":null}}')
    assert_same(SPARSE_SCHEMA, RecordReading(JSONL), lines)


JOURNAL = [
    {"UNIT": "x.service", "_UNIT": "init.scope", "o": {"id": 1}},
    {"_UNIT": "ssh.service", "extra": 'say "hi"', "time": "2026-01-01"},
    {"o": {"host": {"name": "h"}}, "list": []},
    {"n": 5},
]


def test_records_with_different_fields_are_read_as_a_block() -> None:
    rows = [{"ts": "2026-01-01T00:00:00Z", **row} for row in JOURNAL]
    lines = list(map(orjson.dumps, rows))
    table = read_json_block(SPARSE_SCHEMA, RecordReading(JSONL), lines)
    assert table is not None
    assert table["unit"].to_pylist() == ["x.service", "ssh.service", None, None]
    assert table["host"].to_pylist() == [None, None, "h", None]
    assert table["_extra"].to_pylist() == [
        '{"_UNIT":"init.scope","o":{"id":1}}',
        '{"extra":"say \\"hi\\"","time":"2026-01-01"}',
        '{"list":[]}',
        None,
    ]


TIME = b'{"ts":"2026-01-01T00:00:00Z",'
WITHOUT_SOME_FIELDS = [
    [TIME + b'"o":{"a":1,"b":2}}', TIME + b'"o":{"a":1}}'],
    [TIME + b'"o":{"a":1,"b":null}}', TIME + b'"o":{"a":1}}'],
    [TIME + b'"o":[{"a":1,"b":2}]}', TIME + b'"o":[{"a":1}]}'],
    [TIME + b'"x":{"a":1,"b":2}}', TIME + b'"x":{"a":1}}'],
    [TIME + b'"b":null}', TIME + b'"c":"\\"b\\":"}', TIME + b'"b":null,"c":"b"}'],
    [TIME + b'"o":[null]}', TIME + b'"o":[null,null]}'],
    [TIME + b'"x":[{"a":null}],"o":{"b":[[null]]}}', TIME + b'"x":[{"a":null},{"a":null}]}'],
    [TIME + b'"b":null,"a\\"b":1}', TIME + b'"a\\"b":1}'],
]


BESIDE_PATHS = [
    b'"host":{"id":1}}',
    b'"host":{}}',
    b'"host":7}',
    b'"host":"a"}',
    b'"host":[1]}',
    b'"host":{"name":{"z":1,"a":2}}}',
    b'"host":{"name":"a","id":{"z":1,"a":2}}}',
]


@pytest.mark.parametrize("line", BESIDE_PATHS)
def test_a_path_that_leads_nowhere_is_none(line: bytes) -> None:
    schema = declare({"x": "string"}, {"x": ("host.name",)})
    assert_same(schema, RecordReading(JSONL), [TIME + line] * 3)


@pytest.mark.parametrize("kind", ["int", "boolean", "date", "timestamp", "string"])
def test_integers_of_any_size_inside_of_values_are_quoted(kind: str) -> None:
    lines = [TIME + b'"x":[18446744073709551616,NaN]}'] * 2
    assert_same(declare({"x": kind}), RecordReading(JSONL), lines)


@pytest.mark.parametrize("lines", WITHOUT_SOME_FIELDS)
def test_a_field_that_is_missing_is_not_null(lines: list[bytes]) -> None:
    assert_same(declare({"x": "string"}), RecordReading(JSONL), lines)


def test_undeclared_fields_that_are_null_are_read_in_blocks() -> None:
    lines = [TIME + b'"a":null,"o":{"b": null}}', TIME + b'"a":1,"o":{"b": null}}']
    table = read_json_block(declare({"x": "string"}), RecordReading(JSONL), lines)
    assert table is not None
    assert table["_extra"].to_pylist() == ['{"a":null,"o":{"b":null}}', '{"a":1,"o":{"b":null}}']


def test_regular_nested_json_is_read_in_blocks() -> None:
    schema = declare({"x": "string", "n": "bigint"}, {"x": ("host.name",)})
    table = read_json_block(schema, RecordReading(JSONL), [NESTED] * 3)
    assert table is not None and table["x"].to_pylist() == ["a"] * 3


LINES = {
    "combined": [
        b'::1 - - [20/Nov/2026:10:00:00 +0100] "GET /x?y=1 HTTP/1.1" 500 12 "-" "curl/8"',
        b'h i u [20/Nov/2026:10:00:00 +0100] "POST /\\"x HTTP/2.0" 200 - "http://r" "a \\"b\\""',
        b'h - - [99/Nov/2026:10:00:00 +0100] "-" 400 0 "-" "-"',
        b'h - - [20/Nov/2026:10:00:00 +0100] "GET /a\nb HTTP/1.1" 200 0 "-" "-"',
    ],
    "syslog": [
        b"<34>Nov 20 10:00:00 web-1 su[230]: failed",
        b'<165>1 2026-11-20T10:00:01.003Z web-2 app 8710 ID47 [e@1 k="v"] started',
        b"Feb 29 10:00:00 h no tag",
        b"<13>Nov 20 11:00:00.5 CET h app: x",
        b"<189>29: *Nov 20 2026 10:00:00.000 UTC: %SYS-5-CONFIG_I: by x",
    ],
    "common": [b'h - u [20/Nov/2026:10:00:00 +0100] "GET /x HTTP/1.1" 200 1'],
    "docker": [b'{"log":"a","stream":"stdout","time":"2026-11-20T10:00:00Z"}'],
    "klog": [b"W1120 10:00:00.000001    1 main.go:12] hello"],
    "text": [b"2026-11-20T10:00:00Z info hello", b"2026-11-20T10:00:00Z warn two\nlines"],
    "cri": [b"2026-11-20T10:00:00Z stdout F hello"],
    "logfmt": [b'ts=2026-11-20T10:00:00Z level=info msg="a b" n=1 u="\\ud83d\\ude00"'],
}
PATTERN = r"(?P<time>\S+) (?P<level>\w+) (?P<message>.*)"


@given(st.data(), st.sampled_from(sorted(LINES)))
def test_log_blocks_equal_lines(data: st.DataObject, name: str) -> None:
    lines = data.draw(st.lists(mutated(LINES[name]), max_size=8))
    zone = data.draw(st.sampled_from(["UTC", "Europe/Rome", "Asia/Kathmandu", "America/New_York"]))
    schema = declare(
        {"host": "string", "status": "int", "message": "string", "n": "bigint"},
        {"ts": ("time",), "n": ("bytes",)},
        TimeReading(zone=zone),
    )
    pattern = PATTERN if name == "text" else None
    reading = RecordReading(Format(name, pattern=pattern), clock=CLOCK)  # type: ignore[arg-type]
    assert_same(schema, reading, lines)


@pytest.mark.parametrize("name", ["combined", "syslog", "klog", "text", "cri"])
def test_regular_log_lines_are_read_in_blocks(name: str) -> None:
    schema = declare({"host": "string"}, {"ts": ("time",)})
    pattern = PATTERN if name == "text" else None
    reading = RecordReading(Format(name, pattern=pattern), clock=CLOCK)  # type: ignore[arg-type]
    assert read_text_block(schema, reading, LINES[name][:1] * 3) is not None


@given(st.data(), st.sampled_from(["combined", "common", "syslog"]))
def test_split_lines_have_the_fields_of_the_pattern(data: st.DataObject, name: str) -> None:
    samples = LINES["syslog"] if name == "syslog" else LINES["combined"]
    regular = st.sampled_from(samples[:2])
    lines = data.draw(st.lists(regular | mutated(samples), min_size=1, max_size=3))
    texts = pa.array([line.decode("utf-8", "replace") for line in lines], pa.string())
    reading = RecordReading(Format(name), clock=CLOCK)  # type: ignore[arg-type]
    fields = read_texts(reading, texts, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_reader, "SPLITTERS", {})
        patch.setattr(text_reader, "split_request", lambda _: None)
        by_pattern = read_texts(reading, texts, 0)
    assert to_records(fields) == to_records(by_pattern)


def test_requests_may_have_line_breaks() -> None:
    lines = [line for line in LINES["combined"] if b"\n" in line]
    schema = declare({"path": "string"}, {"ts": ("time",)})
    reading = RecordReading(Format("combined"), clock=CLOCK)
    assert_same(schema, reading, lines * 3)
    table = read_text_block(schema, reading, lines * 3)
    assert table is not None and table["path"].to_pylist() == ["/a\nb"] * 3


time_readings = st.builds(
    TimeReading,
    unit=st.sampled_from([None, "s", "ms", "us", "ns"]),
    formats=st.sampled_from([(), ("iso",), ("apache",), ("%Y-%m-%d %H:%M", "iso"), ("%b %d %T",)]),
    zone=st.sampled_from(["UTC", "Europe/Rome", "Asia/Kathmandu"]),
    ambiguous=st.sampled_from(["earlier", "later", "reject"]),
    missing=st.sampled_from(["reject", "forward"]),
)
times = (
    st.sampled_from(
        [
            "2026-03-29 02:30:00",
            "2026-10-25 02:30:00",
            "2026-10-25 02:30",
            "2026-11-20T10:00:00Z",
            "2026-11-20 10:00:00+2",
            "20/Nov/2026:10:00:00 +0100",
            "Nov 20 10:00:00",
            "Feb 29 10:00:00",
            "1795168800123",
            "noon",
            None,
        ]
    )
    | st.integers(-(2**40), 2**62)
    | st.floats(-1e15, 1e15)
)


@given(time_readings, st.lists(times, min_size=1, max_size=4), st.booleans())
def test_time_blocks_equal_lines(reading: TimeReading, values: list[Any], is_uniform: bool) -> None:
    values = values[:1] * 4 if is_uniform else values
    lines = [orjson.dumps({"ts": value}) for value in values]
    schema = declare({}, time=reading)
    assert_same(schema, RecordReading(JSONL, clock=CLOCK), lines)
    texts = [b"" if value is None else str(value).encode() for value in values]
    dialect = CsvDialect(delimiter=";", null_values=("noon", "1"))
    fields = RecordReading(Format("csv", csv=dialect), ("ts", "v"), CLOCK)
    assert_same(schema, fields, [text + b";1" for text in texts])
