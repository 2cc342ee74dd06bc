"""Records of topics as source units."""

import pyarrow as pa

from archiver.ingest import OffsetRange
from moirae.live.sources.topics.units import make_topic_records, make_units
from tests.ingest_scenario import TOPIC

RANGES = {"10": OffsetRange(0, 5), "0": OffsetRange(40, 50), "1": OffsetRange(7, 8)}
RECORDS = pa.table(
    {
        "partition": pa.array([1, 0, 0, 0, 0], pa.int32()),
        "offset": pa.array([7, 42, 39, 40, 41], pa.int64()),
        "value": pa.array([b"a", b"", b"c", None, b"b"], pa.binary()),
    }
)


def test_each_range_is_a_unit_with_its_records_in_order() -> None:
    units = make_units("a", TOPIC, "t", RECORDS, RANGES)
    assert [(unit.name, unit.partition, unit.next_offset) for unit in units] == [
        ("t/0/40-49", "0", 50),
        ("t/1/7-7", "1", 8),
        ("t/10/0-4", "10", 5),
    ]
    assert [list(unit.read()) for unit in units] == [[b"b", b""], [b"a"], []]
    assert [unit.line_numbers for unit in units] == [[41, 42], [7], []]


def test_records_without_a_value_are_counted_and_not_read() -> None:
    units = make_units("a", TOPIC, "t", RECORDS, RANGES)
    assert [unit.tombstones for unit in units] == [1, 0, 0]


def test_records_for_executors_have_the_same_ranges() -> None:
    records = make_topic_records("a", TOPIC, "t#2", "frame", RANGES)
    assert records.ranges == {10: (0, 5), 0: (40, 50), 1: (7, 8)}
    assert (records.stream, records.source, records.fields) == ("a", "t#2", None)
