"""Records of a topic as source units, or for executors. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from archiver.ingest import OffsetRange, SourceUnit
from archiver.ingest.engines import TopicRecords
from archiver.ingest.topic_records import partition_place, range_unit_name, select_records
from moirae.config import KafkaSource, Stream


def make_units(
    name: str, declared: Stream, source: str, records: pa.Table, ranges: Mapping[str, OffsetRange]
) -> list[SourceUnit]:
    """One source unit for each range, in the order of partitions.

    `source`: the topic in the names of units. `records`: as `select_records` takes them. `ranges`:
    by partition.
    """
    units: list[SourceUnit] = []
    for partition in sorted(ranges, key=int):
        selected = select_records(records, int(partition), ranges[partition], declared.punctuation)
        unit = SourceUnit(
            stream=name,
            name=range_unit_name(source, partition, ranges[partition]),
            format=_kafka(declared).record_format,
            read=_make_reader(selected.values),
            line_numbers=selected.offsets,
            fields=_csv_fields(declared),
            partition=partition,
            next_offset=ranges[partition].end,
            tombstones=selected.tombstones,
            place=partition_place(source, partition),
        )
        units.append(unit)
    return units


def _make_reader(values: Sequence[bytes]) -> Callable[[], Any]:
    return lambda: iter(values)


def make_topic_records(
    name: str,
    declared: Stream,
    source: str,
    frame: Any,
    ranges: Mapping[str, OffsetRange],
    verify: Callable[[], None] = lambda: None,
) -> TopicRecords:
    """Records that executors read. `frame`: a data frame of `records` in `make_units`."""
    return TopicRecords(
        stream=name,
        source=source,
        format=_kafka(declared).record_format,
        fields=_csv_fields(declared),
        frame=frame,
        ranges={int(partition): offsets for partition, offsets in ranges.items()},
        verify=verify,
    )


def _kafka(declared: Stream) -> KafkaSource:
    assert isinstance(declared.source, KafkaSource)
    return declared.source


def _csv_fields(declared: Stream) -> list[str] | None:
    record_format = _kafka(declared).record_format
    if not record_format.is_csv:
        return None
    return list(record_format.csv.names or declared.field_names)
