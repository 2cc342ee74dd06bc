"""Rows of streams in the memory of the live process."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from archiver.time_range import TimeRange
from moirae.evaluation.revision_rows import RevisionRows
from moirae.evaluation.stream_rows import LiveStreamRows
from tests.unit.moirae.evaluation.builders import COLUMNS, START_MICROS, make_rows
from tests.unit.moirae.evaluation.test_executor_rules import archive

SECOND = 1_000_000  # microseconds
NO_REVISIONS = RevisionRows(Mock(), Path())


class InMemory:
    """Recent rows, all of which are in memory."""

    def read(self, time_range: TimeRange) -> pa.Table:
        return make_rows(*range(10))

    def estimate_rows(self, time_range: TimeRange) -> int:
        return 10


def _make_rows_in_memory(max_read_rows: int | None = None) -> LiveStreamRows:
    """Rows of the stream `s`; data frames are Arrow tables."""
    spark: Any = Mock()
    spark.createDataFrame.side_effect = lambda table: table
    schema = SimpleNamespace(time="ts", query_columns={**COLUMNS, "_extra": "string"})
    archive: Any = SimpleNamespace(
        recent_rows={"s": InMemory()}, tables={"s": SimpleNamespace(schema=schema)}
    )
    return LiveStreamRows(spark, archive, NO_REVISIONS, max_read_rows)


@pytest.fixture
def rows() -> LiveStreamRows:
    return _make_rows_in_memory()


def _range(first: int, last: int) -> TimeRange:
    return TimeRange(START_MICROS + first * SECOND, START_MICROS + last * SECOND)


def test_rows_near_events_lie_in_one_of_the_ranges(rows: LiveStreamRows) -> None:
    near: Any = rows.rows_near("s", [_range(7, 9), _range(1, 3), _range(2, 4)], {})
    assert near["v"].to_pylist() == [1, 2, 3, 7, 8]


def test_rows_near_events_have_allowed_values(rows: LiveStreamRows) -> None:
    near: Any = rows.rows_near("s", [_range(0, 10)], {"v": [2.0, 5.0, 99.0], "host": ["a"]})
    assert near["v"].to_pylist() == [2, 5]


def test_rows_in_memory_are_one_table(rows: LiveStreamRows) -> None:
    (table,) = rows.read_tables("s", _range(0, 10))
    assert len(table) == rows.estimate_count("s", _range(0, 10)) == 10


def test_rows_are_reduced_to_columns_that_queries_may_name(rows: LiveStreamRows) -> None:
    table = make_rows(1.0).append_column("_id", pa.array(["x"]))
    table = table.append_column("_extra", pa.array(["{}"]))
    assert rows.select_columns("s", table).column_names == [*COLUMNS, "_extra"]


def test_rows_near_events_that_memory_holds_have_no_limit() -> None:
    near = _make_rows_in_memory(max_read_rows=0).read_near("s", [_range(1, 3)], {})
    assert near is not None
    assert near["v"].to_pylist() == [1.0, 2.0]


def test_files_beyond_the_limit_are_not_read_in_this_process(tmp_path: Path) -> None:
    table = archive(tmp_path, make_rows(*range(12)), files=3, late=frozenset())
    nothing = SimpleNamespace(read=lambda _: None)
    stored: Any = SimpleNamespace(recent_rows={"s": nothing}, tables={"s": table})
    no_spark: Any = None
    counts: list[int | None] = []
    for limit in (8, 7):
        near = LiveStreamRows(no_spark, stored, NO_REVISIONS, limit).read_near(
            "s", [_range(3, 5)], {}
        )
        counts.append(near if near is None else len(near))
    assert counts == [2, None], "the range overlaps two files of four rows"


@pytest.mark.services
def test_rows_near_events_are_read_by_spark_beyond_a_limit(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = archive(tmp_path, make_rows(*range(12)), files=3, late=frozenset({8}))
    nothing = SimpleNamespace(read=lambda _: None)
    stored: Any = SimpleNamespace(recent_rows={"s": nothing}, tables={"s": table})
    ranges = [_range(7, 10), _range(1, 3), _range(2, 4)]
    allowed_values = {"v": [2.0, 7.0, 8.0, 9.0, 11.0]}
    near = [
        LiveStreamRows(spark, stored, NO_REVISIONS, limit)
        .rows_near("s", ranges, allowed_values)
        .toArrow()
        for limit in (None, 100, 0)
    ]
    assert [sorted(rows["v"].to_pylist()) for rows in near] == [[2, 7, 9]] * 3
    many = [_range(position, position + 1) for position in range(0, 100, 2)]
    rows = LiveStreamRows(spark, stored, NO_REVISIONS, 0).rows_near("s", many, {}).toArrow()
    assert set(rows["v"].to_pylist()) >= {0, 2, 4, 6, 10}
