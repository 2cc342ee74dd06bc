"""Statements over parts of archived files, as a task runs them."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from archiver.delta.data_files import cast_to_fields
from archiver.delta.schema import ARROW_TYPES, StreamSchema
from archiver.delta.table import StreamTable
from archiver.time_range import ALL_TIME, TimeRange
from recall.statements.file_rows import FilePart, FileRows
from recall.statements.part_task import PartJob, PartStatement, run_on_part
from recall.statements.statement import Statement

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "v": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)
SLOW = "SELECT make_timestamptz(count(*)) AS ts FROM range(3000000) a, range(3000000) b"
LARGE = "SELECT make_timestamptz(0) AS ts, list(repeat('x', 1000000)) FROM range(1500)"


@pytest.fixture
def rows(tmp_path: Path) -> FileRows:
    """Ten rows, a microsecond apart, in two files; the one at 4 is late."""
    table = StreamTable(tmp_path, SCHEMA)
    for start in (0, 5):
        times = range(start, start + 5)
        columns = {
            "ts": pa.array(times, ARROW_TYPES["timestamp"]),
            "v": pa.array(times),
            "_late": pa.array([time == 4 for time in times]),
            "chunk": pa.array([0] * 5, pa.int32()),
        }
        arrow_schema = SCHEMA.arrow_schema()
        columns |= {
            name: pa.nulls(5, arrow_schema.field(name).type)
            for name in arrow_schema.names
            if name not in columns
        }
        columns["_unit"] = pa.array([1] * 5)
        columns["_line"] = pa.array(times)
        table.append(cast_to_fields(pa.table(columns), list(arrow_schema)), 0)
    return FileRows(table.files, table.data_files(), ALL_TIME)


def make_job(rows: FileRows, *texts: str, sources: dict[str, str] | None = None) -> PartJob:
    is_slow = SLOW in (*texts, *(sources or {}).values())
    limit = 0.3 if is_slow else 60.0
    return PartJob(
        rows=rows,
        view="in_s",
        statements=[PartStatement(Statement(text), limit, source="shared") for text in texts],
        sources={
            name: PartStatement(Statement(sql), limit) for name, sql in (sources or {}).items()
        },
        relations={},
        generation="1",
    )


def test_on_time_rows_of_the_part_are_read_and_events_of_its_range_returned(
    rows: FileRows,
) -> None:
    part = FilePart(rows.files, TimeRange(1, 8), TimeRange(2, 6))
    (outcome,) = run_on_part(make_job(rows, "SELECT ts, v, sum(v) OVER () AS n FROM in_s"), part)
    assert outcome.result is not None
    assert outcome.result["v"].to_pylist() == [2, 3, 5]
    assert set(outcome.result["n"].to_pylist()) == {1 + 2 + 3 + 5 + 6 + 7}


@pytest.mark.parametrize(
    ("text", "failure"),
    [(SLOW, "time"), (LARGE, "memory"), ("SELECT * FROM read_text('/etc/hosts')", "unsupported")],
)
def test_failing_statement_does_not_affect_others(rows: FileRows, text: str, failure: str) -> None:
    part = FilePart(rows.files, ALL_TIME)
    before, failed, after = run_on_part(make_job(rows, SELECT, text, SELECT), part)
    assert failed.failure == failure
    assert failed.result is None
    assert before.result == after.result is not None
    if failure == "time":
        assert 0.3 <= failed.seconds < 10


SELECT = "SELECT ts, v FROM in_s ORDER BY ts"


def test_statement_over_a_source_that_exceeds_its_time_limit_fails(rows: FileRows) -> None:
    job = make_job(rows, "SELECT * FROM shared", sources={"shared": SLOW})
    assert [outcome.failure for outcome in run_on_part(job, FilePart(rows.files, ALL_TIME))] == [
        "time"
    ]


def test_result_with_too_many_rows_is_unsupported(rows: FileRows) -> None:
    job = make_job(rows)
    statements = [PartStatement(Statement(SELECT), 1.0, max_rows=limit) for limit in (8, 9)]
    job = PartJob(**{**vars(job), "statements": statements})
    few, many = run_on_part(job, FilePart(rows.files, ALL_TIME))
    assert few.failure == "unsupported"
    assert many.result is not None and len(many.result) == 9
