"""Rows of archived files, and their division into tasks."""

from datetime import timedelta
from pathlib import Path

from archiver.delta.files import DataFile
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.time_range import TimeRange
from recall.statements.file_rows import FileRows, divide_files

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "v": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)


def test_files_are_divided_into_tasks_of_some_size(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    files = [DataFile(f"chunk=0/a-{number}.parquet", 0, 20_000, 1, 0, 0) for number in range(40)]
    tasks = list(divide_files(FileRows(table.files, files, TimeRange()), cores=2))
    assert [file for task in tasks for file in task.files] == files
    assert [len(task.files) for task in tasks] == [10, 10, 10, 10]
    few = FileRows(table.files, files[:2], TimeRange())
    assert len(list(divide_files(few, cores=2))) == 1
