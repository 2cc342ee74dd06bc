"""Decoding a unit: quarantined, expired and late rows, and the counters of the unit."""

from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
import orjson

from archiver.delta.schema import StreamSchema
from archiver.ingest.classify import RowClassification
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
    return SourceUnit("s", "u", "jsonl", lambda: iter(lines), list(range(1, len(lines) + 1)))


def decode(open_unit: OpenUnit, expired_before: int | None = None) -> list[DecodedSlice]:
    return list(decode_slices(open_unit, SCHEMA, NOW, expired_before))


def test_future_rows_are_quarantined_and_expired_ones_refused() -> None:
    open_unit = OpenUnit(unit_of(0, 1, -9, 0.05), 1, None)
    (decoded,) = decode(open_unit, expired_before=NOW - 2 * HOUR)
    assert decoded.line_numbers.tolist() == [1, 4]
    assert [(line.line, line.reason, line.detail) for line in open_unit.refused_lines] == [
        (2, "quarantined", "timestamp more than 5m in the future"),
        (3, "expired", "its chunk has expired"),
    ]
    assert open_unit.counters == Counters(read=4, quarantined=1, expired=1)
    assert open_unit.newest == NOW + HOUR // 20


def test_rows_of_a_unit_are_late_by_earlier_units_only() -> None:
    open_unit = OpenUnit(unit_of(0, -3, -5), 1, late_before=NOW - 4 * HOUR)
    (decoded,) = decode(open_unit)
    assert decoded.is_late.tolist() == [False, False, True]


def test_rows_of_a_partition_are_late_by_the_rows_before_them() -> None:
    before = PartitionProgress(1, ReadProgress(newest=NOW - 4 * HOUR))
    open_unit = OpenUnit(unit_of(-4.5, -6, 0, -3), 1, None, partition_before=before)
    (decoded,) = decode(open_unit)
    assert decoded.is_late.tolist() == [False, True, False, True]
    assert open_unit.partition_after() == PartitionProgress(5, ReadProgress(newest=NOW))


def test_classified_rows_are_counted_in_their_units() -> None:
    first, second = OpenUnit(unit_of(0, 0), 1, None), OpenUnit(unit_of(0, 0), 2, None)
    slices = list(chain(decode(first), decode(second)))
    classification = RowClassification(
        new=np.array([True, False, False, False]),
        replayed=np.array([False, True, False, False]),
        duplicate=np.array([False, False, True, False]),
        conflict=np.array([False, False, False, True]),
    )
    count_classified(slices, classification, is_late=np.array([False, True, True, True]))
    assert first.counters == Counters(read=2, archived=2, late=1)
    assert second.counters == Counters(read=2, duplicates=1, conflicts=1)
    (conflict,) = second.refused_lines
    assert (conflict.line, conflict.reason) == (2, "conflict")
