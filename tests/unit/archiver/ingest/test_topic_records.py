"""Names of units of topics, and the records of a range."""

from typing import Any

import pyarrow as pa
import pytest

from archiver.ingest.source_units import OffsetRange
from archiver.ingest.topic_records import (
    parse_range_unit,
    range_unit_name,
    select_records,
    topic_source_name,
)

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("number", [1, 2, 30])
def test_name_of_a_unit_tells_partition_and_range(number: int) -> None:
    source = topic_source_name("a.topic-x_1", number)
    name = range_unit_name(source, "12", OffsetRange(400, 450))
    assert parse_range_unit(name, source) == ("12", OffsetRange(400, 450))
    assert parse_range_unit(name, topic_source_name("a.topic-x_1", number + 1)) is None


@pytest.mark.parametrize("name", ["", "t", "t/0", "t/0/", "t/0/1", "t/x/1-2", "landing/t/0/1-2"])
def test_other_units_are_none_of_a_topic(name: str) -> None:
    assert parse_range_unit(name, "t") is None


def records(*rows: tuple[int, bytes | None, dict[str, bytes | None] | None]) -> pa.Table:
    """Records of partition 0, with headers."""
    headers: list[Any] = []
    for _, _, named in rows:
        found = None if named is None else [{"key": k, "value": v} for k, v in named.items()]
        headers.append(found)
    return pa.table(
        {
            "partition": pa.array([0] * len(rows), pa.int32()),
            "offset": [offset for offset, _, _ in rows],
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )


def test_a_header_closes_time_after_its_record() -> None:
    table = records(
        (6, None, {"closed": b"2026-01-01T00:00:00Z", "trace": b"1"}),
        (5, b"row", {"closed": b"17.5"}),
        (7, None, {"trace": b"1"}),
        (8, b"other", None),
        (9, b"late", {"closed": None}),
        (20, b"of another range", {"closed": b"x"}),
    )
    selected = select_records(table, 0, OffsetRange(5, 10), "closed")
    assert list(zip(selected.offsets, selected.values, strict=True)) == [
        (5, b"row"),
        (5, b'{"closed":17.5}'),
        (6, b'{"closed":"2026-01-01T00:00:00Z"}'),
        (8, b"other"),
        (9, b"late"),
        (9, b'{"closed":""}'),
    ]
    assert selected.tombstones == 1
    undeclared = select_records(table, 0, OffsetRange(5, 10))
    assert undeclared.values == [b"row", b"other", b"late"]
    assert undeclared.tombstones == 2
