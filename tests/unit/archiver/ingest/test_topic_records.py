"""Names of units of topics."""

import pytest

from archiver.ingest.source_units import OffsetRange
from archiver.ingest.topic_records import parse_range_unit, range_unit_name, topic_source_name


@pytest.mark.parametrize("number", [1, 2, 30])
def test_name_of_a_unit_tells_partition_and_range(number: int) -> None:
    source = topic_source_name("a.topic-x_1", number)
    name = range_unit_name(source, "12", OffsetRange(400, 450))
    assert parse_range_unit(name, source) == ("12", OffsetRange(400, 450))
    assert parse_range_unit(name, topic_source_name("a.topic-x_1", number + 1)) is None


@pytest.mark.parametrize("name", ["", "t", "t/0", "t/0/", "t/0/1", "t/x/1-2", "landing/t/0/1-2"])
def test_other_units_are_none_of_a_topic(name: str) -> None:
    assert parse_range_unit(name, "t") is None
