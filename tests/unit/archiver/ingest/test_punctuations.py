"""Records that close event time, among those that are no rows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from archiver.delta import StreamSchema
from archiver.formats import JSONL, RecordReading, Redaction
from archiver.ingest.decoding import decode_lines
from archiver.ingest.lateness import LateRule
from archiver.ingest.open_unit import OpenUnit, decode_slices
from archiver.ingest.punctuations import find_punctuation_problem, take_punctuations
from archiver.ingest.source_units import SourceUnit
from archiver.times import to_micros

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = StreamSchema(
    "cpu",
    {"at": "timestamp", "host": "string"},
    "at",
    ("host",),
    (),
    timedelta(minutes=1),
    timedelta(minutes=5),
    fields={"at": ("time",)},
    punctuation="closed",
)
READING = RecordReading(JSONL)


def take(*lines: bytes, schema: StreamSchema = SCHEMA) -> tuple[int, int | None, list[str]]:
    refused = decode_lines(schema, READING, lines, 0).refused_lines
    taken = take_punctuations(refused, schema, READING, to_micros(NOW))
    return (
        taken.records,
        taken.closed,
        [f"{line.reason}: {line.detail}" for line in taken.refused_lines],
    )


def test_the_latest_closed_time_counts() -> None:
    taken = take(b'{"closed": "2026-01-01T11:00:00Z"}', b'{"closed": "2026-01-01T10:00:00+00:00"}')
    assert taken == (2, to_micros(NOW - timedelta(hours=1)), [])


def test_times_are_read_as_those_of_rows() -> None:
    assert take(b'{"closed": 1767265200}')[:2] == (1, 1_767_265_200_000_000)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"closed": "2026-01-01T12:06:00Z"}', "quarantined: it closes time more than 5m in"),
        (b'{"closed": "soon"}', "malformed: field closed: column at: "),
        (b'{"closed": "2026-01-01T11:00:00Z", "host": "a"}', "no other field than closed"),
        (b'{"closed": null}', "malformed: column at: event time is missing"),
        (b'{"host": "closed"}', "malformed: column at: event time is missing"),
        (b'["closed"]', "malformed: "),
        (b'"closed', "malformed: "),
    ],
)
def test_other_records_stay_refused_with_the_reason(line: bytes, message: str) -> None:
    count, closed, refused = take(line)
    assert (count, closed) == (0, None)
    assert len(refused) == 1
    assert message in refused[0]


def test_rows_may_have_the_field_beside_an_event_time() -> None:
    rows = decode_lines(SCHEMA, READING, [b'{"time": "2026-01-01T11:00:00Z", "closed": 1}'], 0)
    assert (len(rows.table), rows.refused_lines) == (1, [])


KEYED = replace(SCHEMA, key=("host", "n"), columns={**SCHEMA.columns, "n": "bigint"})


def read_closed(*lines: bytes) -> OpenUnit:
    unit = SourceUnit("cpu", "u", JSONL, lambda: iter(lines))
    open_unit = OpenUnit(unit, 1, LateRule())
    list(decode_slices(open_unit, KEYED, to_micros(NOW), None))
    return open_unit


def test_records_with_the_fields_of_the_key_close_its_time_alone() -> None:
    unit = read_closed(
        b'{"closed": 1767265200, "host": "a", "n": 7}',
        b'{"n": null, "closed": 1767265201, "host": "b"}',
        b'{"closed": 1767265190, "host": "a", "n": 7}',
        b'{"closed": 1767265100}',
    )
    assert unit.closed == 1_767_265_100_000_000
    assert unit.closed_keys == {
        ("a", "7"): 1_767_265_200_000_000,
        ("b", None): 1_767_265_201_000_000,
    }
    assert (unit.counters.read, unit.counters.punctuations) == (0, 4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"closed": 1767265200, "host": "a"}', "or, for one key, than closed, host, n"),
        (b'{"closed": 1767265200, "host": "a", "n": 1, "x": 1}', "or, for one key, than"),
        (b'{"closed": 1767265200, "host": "a", "n": "b"}', "field closed: column n"),
        (b'{"closed": 1767265200, "host": "a\\u0000", "n": 1}', "NUL"),
        (b'{"closed": 1767265200, "host": "' + 1001 * b"a" + b'", "n": 1}', "longer than 1000"),
    ],
)
def test_records_with_other_fields_than_the_key_close_nothing(line: bytes, message: str) -> None:
    unit = read_closed(line)
    assert (unit.closed, unit.closed_keys, unit.counters.punctuations) == (None, {}, 0)
    (refused,) = unit.refused_lines
    assert message in refused.detail


def test_rows_of_a_closed_key_are_late_in_later_units() -> None:
    before = {("a", "7"): 1_767_265_200_000_000}
    lines = [
        b'{"time": 1767265199, "host": "a", "n": 7}',
        b'{"time": 1767265200, "host": "a", "n": 7}',
        b'{"time": 1767265199, "host": "a", "n": 8}',
        b'{"time": 1767265100, "host": null, "n": 7}',
        b'{"closed": 1767265199, "host": "a", "n": 8}',
    ]
    unit = SourceUnit("cpu", "u", JSONL, lambda: iter(lines))
    open_unit = OpenUnit(unit, 1, LateRule(closed_keys=before))
    (decoded,) = decode_slices(open_unit, KEYED, to_micros(NOW), None)
    assert decoded.late_rows.late.tolist() == [True, False, False, False]
    assert not decoded.late_rows.by_ahead.any()


def test_closed_keys_are_redacted_as_rows_are() -> None:
    schema = replace(KEYED, redactions=(Redaction("host", r"@.*", "@***"),))
    lines = [b'{"closed": 1767265200, "host": "a@b", "n": 7}']
    unit = OpenUnit(SourceUnit("cpu", "u", JSONL, lambda: iter(lines)), 1, LateRule())
    list(decode_slices(unit, schema, to_micros(NOW), None))
    assert unit.closed_keys == {("a@***", "7"): 1_767_265_200_000_000}


def test_streams_without_punctuation_close_nothing() -> None:
    schema = StreamSchema(
        "cpu", SCHEMA.columns, "at", None, (), SCHEMA.lateness, SCHEMA.future, fields=SCHEMA.fields
    )
    count, _, refused = take(b'{"closed": "2026-01-01T11:00:00Z"}', schema=schema)
    assert (count, len(refused)) == (0, 1)


def test_records_that_close_time_are_not_counted_as_read() -> None:
    lines = [b'{"time": "2026-01-01T11:00:00Z", "host": "a"}', b'{"closed": 1767265200}', b"{}"]
    unit = SourceUnit("cpu", "u", JSONL, lambda: iter(lines))
    open_unit = OpenUnit(unit, 1, LateRule())
    slices = list(decode_slices(open_unit, SCHEMA, to_micros(NOW), None))
    assert [len(decoded) for decoded in slices] == [1]
    counters = open_unit.counters
    assert (counters.read, counters.punctuations, counters.malformed) == (2, 1, 1)
    assert open_unit.closed == 1_767_265_200_000_000


def test_problems_of_one_record_are_named() -> None:
    now = to_micros(NOW)
    assert find_punctuation_problem(SCHEMA, b'{"closed": 1767265200}', now) is None
    assert "column at" in (find_punctuation_problem(SCHEMA, b'{"closed": "x"}', now) or "")
