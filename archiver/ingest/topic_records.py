"""Records of Kafka topics as source units: one for each range of offsets of a partition. No I/O."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from archiver.ingest.source_units import OffsetRange


class SelectedRecords(NamedTuple):
    """Records with a value in the order of their offsets, and the number of those without one."""

    offsets: Sequence[int]
    values: Sequence[bytes]
    tombstones: int


def select_records(records: pa.Table, partition: int, offsets: OffsetRange) -> SelectedRecords:
    """The records of a range of a partition.

    `records`: columns `partition`, `offset` and `value`, in any order.
    """
    is_selected = pc.and_(
        pc.equal(records["partition"], partition),
        pc.and_(
            pc.greater_equal(records["offset"], offsets.first),
            pc.less(records["offset"], offsets.end),
        ),
    )
    selected = records.filter(is_selected).sort_by("offset")
    rows = selected.filter(pc.is_valid(selected["value"]))
    return SelectedRecords(
        rows["offset"].to_pylist(), rows["value"].to_pylist(), len(selected) - len(rows)
    )


def range_unit_name(source: str, partition: str, offsets: OffsetRange) -> str:
    """The name of the unit of a range. `source`: see `topic_source_name`."""
    return f"{source}/{partition}/{offsets.first}-{offsets.end - 1}"


def partition_place(source: str, partition: str) -> str:
    """A partition in the identities of rows that are identified by their place."""
    return f"{source}/{partition}"


def topic_source_name(topic: str, number: int) -> str:
    """A topic in the names of units: another topic of the stream has other units.

    `number`: of the topic among those of its stream.
    """
    return topic if number == 1 else f"{topic}#{number}"


def parse_range_unit(name: str, source: str) -> tuple[str, OffsetRange] | None:
    """The partition and range of a unit; None if it is not one of the topic of a source name."""
    prefix, _, offsets = name.rpartition("/")
    unit_source, _, partition = prefix.rpartition("/")
    first, _, last = offsets.partition("-")
    numbers = (partition, first, last)
    if unit_source != source or not all(text.isascii() and text.isdigit() for text in numbers):
        return None
    return partition, OffsetRange(int(first), int(last) + 1)
