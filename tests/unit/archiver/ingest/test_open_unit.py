"""Decoding a unit: quarantined, expired and late rows, and the counters of the unit."""

from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
import orjson

from archiver.delta.schema import StreamSchema
from archiver.formats import JSONL
from archiver.ingest.classify import RowClassification
from archiver.ingest.lateness import LateRule
from archiver.ingest.ledger.catalog import Counters
from archiver.ingest.open_unit import DecodedSlice, OpenUnit, count_classified, decode_slices
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.watermarks import PartitionProgress, ReadProgress
from archiver.times import to_micros

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW = to_micros(NOON)
HOUR = 3_600_000_000  # microseconds
SCHEMA = StreamSchema(
    "s", {"ts": "timestamp"}, "ts", None, (), timedelta(hours=1), timedelta(minutes=5)
)


def unit_of(*hours: float) -> SourceUnit:
    """A unit with a row for each offset from noon."""
    lines = [orjson.dumps({"ts": (NOON + timedelta(hours=offset)).isoformat()}) for offset in hours]
    numbers = list(range(1, len(lines) + 1))
    return SourceUnit("s", "u", JSONL, lambda: iter(lines), numbers, next_offset=len(lines) + 1)


def decode(open_unit: OpenUnit, expired_before: int | None = None) -> list[DecodedSlice]:
    return list(decode_slices(open_unit, SCHEMA, NOW, expired_before))


def test_future_rows_are_quarantined_and_expired_ones_refused() -> None:
    open_unit = OpenUnit(unit_of(0, 1, -9, 0.05), 1, LateRule())
    (decoded,) = decode(open_unit, expired_before=NOW - 2 * HOUR)
    assert decoded.line_numbers.tolist() == [1, 4]
    assert [(line.line, line.reason, line.detail) for line in open_unit.refused_lines] == [
        (2, "quarantined", "timestamp more than 5m in the future"),
        (3, "expired", "its chunk has expired"),
    ]
    assert open_unit.counters == Counters(read=4, quarantined=1, expired=1)
    assert open_unit.newest == NOW + HOUR // 20


def test_rows_of_a_unit_are_late_by_earlier_units_only() -> None:
    open_unit = OpenUnit(unit_of(0, -3, -5), 1, LateRule(before=NOW - 4 * HOUR))
    (decoded,) = decode(open_unit)
    assert decoded.late_rows.late.tolist() == [False, False, True]


def test_rows_of_a_partition_are_late_by_the_rows_before_them() -> None:
    newest = NOW - 4 * HOUR
    before = PartitionProgress(1, ReadProgress(newest, None, newest))
    rule = LateRule(newest=newest, lateness=HOUR)
    open_unit = OpenUnit(unit_of(-4.5, -6, 0, -3), 1, rule, partition_before=before)
    (decoded,) = decode(open_unit)
    assert decoded.late_rows.late.tolist() == [False, True, False, True]
    assert open_unit.partition_after() == PartitionProgress(5, ReadProgress(NOW, None, NOW))


def test_rows_ahead_of_the_recorded_clock_are_not_compared_with() -> None:
    """Replayed an hour later: the clock of the first read counts."""
    clock = NOW - HOUR
    newest = NOW - 2 * HOUR
    before = PartitionProgress(1, ReadProgress(newest, None, newest))
    rule = LateRule(clock=clock, newest=newest, lateness=HOUR)
    unit = unit_of(-0.5, -2.5, -1, -1.5, -2.5)
    open_unit = OpenUnit(unit, 1, rule, partition_before=before)
    (decoded,) = decode(open_unit)
    assert decoded.late_rows.late.tolist() == [False, False, False, False, True]
    assert (open_unit.newest, open_unit.newest_not_ahead) == (NOW - HOUR // 2, clock)
    (key,) = open_unit.keys_ahead
    assert (key.key, key.ahead, key.at) == ((), HOUR // 2, clock)
    after = ReadProgress(NOW - HOUR // 2, None, clock)
    assert open_unit.partition_after() == PartitionProgress(6, after)


def test_rows_late_only_because_the_watermark_followed_rows_ahead_are_counted() -> None:
    rule = LateRule(before=NOW - HOUR, before_by_rows=NOW - 3 * HOUR)
    open_unit = OpenUnit(unit_of(0, -2, -4), 1, rule)
    (decoded,) = decode(open_unit)
    archived = np.array([True, True, True])
    none = np.zeros(3, dtype=bool)
    count_classified([decoded], RowClassification(archived, none, none, none, none))
    assert decoded.late_rows.late.tolist() == [False, True, True]
    assert open_unit.counters == Counters(read=3, archived=3, late=2, late_by_ahead=1)


def test_classified_rows_are_counted_in_their_units() -> None:
    rule = LateRule(before=NOW - HOUR, before_by_rows=NOW - HOUR)
    first, second = OpenUnit(unit_of(0, -2), 1, rule), OpenUnit(unit_of(-2, -2), 2, rule)
    slices = list(chain(decode(first), decode(second)))
    classification = RowClassification(
        new=np.array([True, False, False, False]),
        replayed=np.array([False, True, False, False]),
        duplicate=np.array([False, False, True, False]),
        conflict=np.array([False, False, False, True]),
        erased_again=np.array([False, False, True, False]),
    )
    count_classified(slices, classification)
    assert first.counters == Counters(read=2, archived=2, late=1, replayed=1, replayed_late=1)
    assert second.counters == Counters(read=2, duplicates=1, conflicts=1, erased_again=1)
    (conflict,) = second.refused_lines
    assert (conflict.line, conflict.reason) == (2, "conflict")
