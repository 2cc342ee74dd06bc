"""Records of Kafka topics as source units: one for each range of offsets of a partition. No I/O."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.ingest.source_units import OffsetRange


class SelectedRecords(NamedTuple):
    """Records with a value in the order of their offsets, and the number of those without one."""

    offsets: Sequence[int]
    values: Sequence[bytes]
    tombstones: int


def select_records(
    records: pa.Table, partition: int, offsets: OffsetRange, punctuation: str | None = None
) -> SelectedRecords:
    """The records of a range of a partition.

    `records`: columns `partition`, `offset` and `value`, with `punctuation` also `headers`, in any
    order. `punctuation`: a header of this name closes time. It becomes a record of its own, with
    the same offset, as if the source had sent this field as JSON.
    """
    is_selected = pc.and_(
        pc.equal(records["partition"], partition),
        pc.and_(
            pc.greater_equal(records["offset"], offsets.first),
            pc.less(records["offset"], offsets.end),
        ),
    )
    selected = records.filter(is_selected).sort_by("offset")
    if punctuation is not None:
        return _with_headers(selected, punctuation)
    rows = selected.filter(pc.is_valid(selected["value"]))
    return SelectedRecords(
        rows["offset"].to_pylist(), rows["value"].to_pylist(), len(selected) - len(rows)
    )


def _with_headers(records: pa.Table, punctuation: str) -> SelectedRecords:
    """Records in order, and those that the headers of the name stand for after theirs."""
    offsets: list[int] = []
    values: list[bytes] = []
    tombstones = 0
    columns = (records[name].to_pylist() for name in ("offset", "value", "headers"))
    for offset, value, headers in zip(*columns, strict=True):
        closing = [header for header in headers or () if header["key"] == punctuation]
        record_values = [] if value is None else [value]
        for header in closing:
            record_values.append(orjson.dumps({punctuation: _parse_header(header["value"])}))
        offsets += [offset] * len(record_values)
        values += record_values
        tombstones += not record_values
    return SelectedRecords(offsets, values, tombstones)


def _parse_header(value: bytes | None) -> Any:
    """A number, or else the text."""
    try:
        number = orjson.loads(value or b"")
    except ValueError:
        return (value or b"").decode(errors="replace")
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return number if is_number else (value or b"").decode(errors="replace")


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
