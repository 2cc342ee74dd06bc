"""Records that close event time, among those that are no rows."""

from datetime import UTC, datetime, timedelta

import pytest

from archiver.delta import StreamSchema
from archiver.formats import JSONL, RecordReading
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
