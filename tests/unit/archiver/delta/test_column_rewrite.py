"""Files rewritten for changed columns: values, identities, one commit, continued after a kill."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from archiver.delta.column_rewrite import ColumnRewrite, RewriteProgress, find_inexact
from archiver.delta.identity import fingerprint
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.errors import IncompatibleDeclaration, ValueLost

COLUMNS = {"ts": "timestamp", "host": "string", "v": "bigint", "day": "date"}
SCHEMA = StreamSchema("s", COLUMNS, "ts", ("host",), ("host",), timedelta(0), timedelta(0))
CHANGED = replace(
    SCHEMA,
    columns={"ts": "timestamp", "machine": "string", "v": "double", "day": "timestamp"},
    id=("machine",),
    key=("machine",),
    was={"machine": "host"},
)


def rows(schema: StreamSchema, numbers: range, chunk: int = 0) -> pa.Table:
    count = len(numbers)
    columns = {
        "timestamp": pa.array(numbers, pa.timestamp("us", tz="UTC")),
        "string": pa.array([f"h{number}" for number in numbers]),
        "bigint": pa.array(numbers, pa.int64()),
        "double": pa.array(map(float, numbers), pa.float64()),
        "date": pa.array(numbers, pa.int32()).cast(pa.date32()),
    }
    content = pa.table(
        {
            **{name: columns[kind] for name, kind in schema.columns.items()},
            "_extra": pa.nulls(count, pa.string()),
        }
    )
    ids, hashes = fingerprint(schema, content)
    added = {
        "_late": pa.repeat(pa.scalar(False), count),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.repeat(pa.scalar(1, pa.int64()), count),
        "_line": pa.array(numbers, pa.int64()),
        "chunk": pa.repeat(pa.scalar(chunk, pa.int32()), count),
    }
    for name, values in added.items():
        content = content.append_column(name, values)
    return content


@pytest.fixture
def table(tmp_path: Path) -> StreamTable:
    """Two chunks, the first with a clustered file and a small one."""
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(SCHEMA, range(1, 5)), 1)
    table.cluster(0)
    table.append(rows(SCHEMA, range(5, 7)), 2)
    table.append(rows(SCHEMA, range(7, 9), chunk=1), 3)
    return table


def ignore(progress: RewriteProgress) -> None:
    pass


def stop_at(step: int) -> Callable[[RewriteProgress], None]:
    def on_progress(progress: RewriteProgress) -> None:
        if progress.steps_done == step:
            raise InterruptedError

    return on_progress


def read_identities(table: StreamTable) -> list[tuple[object, ...]]:
    entries = table.read_identities(0).values()
    return sorted(entry for part in entries for entry in part.tolist())


def read(table: StreamTable) -> list[tuple[object, ...]]:
    columns = table.read(list(table.schema.columns))
    return sorted(zip(*map(pa.ChunkedArray.to_pylist, columns.columns), strict=True))


def test_rewritten_table_has_new_columns_and_the_same_identities(
    table: StreamTable, tmp_path: Path
) -> None:
    identities = read_identities(table)
    changed = StreamTable(tmp_path, CHANGED)
    before = read(changed)  # converted as they are read
    assert changed.is_rewriting and before[0][1:3] == ("h1", 1.0)
    with pytest.raises(IncompatibleDeclaration, match="not rewritten yet"):
        changed.start_append()
    reports: list[RewriteProgress] = []
    ColumnRewrite(changed).run(reports.append)
    assert [report.steps_done for report in reports] == [0, 1, 2, 3]
    assert reports[0].bytes_needed > reports[2].bytes_needed > reports[3].bytes_needed == 0
    assert not changed.is_rewriting and changed.declaration.is_recorded
    assert read(changed) == before == read(StreamTable(tmp_path, CHANGED))
    assert read_identities(changed) == identities
    stored = DeltaTable(table.data_folder).to_pyarrow_table()
    assert "host" not in stored.column_names
    assert stored.schema.field("v").type == pa.float64()
    assert sorted(stored["v"].to_pylist()) == [float(number) for number in range(1, 9)]
    assert sorted(stored["_append"].to_pylist()) == [1] * 4 + [2] * 2 + [3] * 2
    numbers = changed.schema.declaration_numbers(np.array([3, 4]))
    types = [changed.schema.declaration(int(number)).columns["v"] for number in numbers]
    assert types == ["bigint", "double"]


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_interrupted_rewrite_is_continued(table: StreamTable, tmp_path: Path, step: int) -> None:
    expected = read(StreamTable(tmp_path, CHANGED))
    with pytest.raises(InterruptedError):
        ColumnRewrite(StreamTable(tmp_path, CHANGED)).run(stop_at(step))
    table.refresh()
    assert read(table)[0][1:3] == ("h1", 1)  # nothing is committed
    written = set(table.storage.list_files())
    continued = StreamTable(tmp_path, CHANGED)
    assert not any("-r" in path for path in continued.unreferenced_files())
    ColumnRewrite(continued).run(ignore)
    assert read(continued) == expected
    assert written <= set(table.storage.list_files())


def test_rewrite_follows_what_maintenance_does_meanwhile(
    table: StreamTable, tmp_path: Path
) -> None:
    changed = StreamTable(tmp_path, CHANGED)
    other = StreamTable(tmp_path, CHANGED)

    def delete_chunk(progress: RewriteProgress) -> None:
        if progress.steps_done == 2:
            other.delete_chunk(1)

    other.cluster(0)
    assert other.count_unclustered(0) == 1  # not before the files are rewritten
    ColumnRewrite(changed).run(delete_chunk)
    assert len(read(changed)) == 6 and not changed.is_rewriting
    other.cluster(0)
    other.refresh()
    assert read(other) == read(changed)


def test_appends_go_on_with_the_new_columns(table: StreamTable, tmp_path: Path) -> None:
    changed = StreamTable(tmp_path, CHANGED)
    ColumnRewrite(changed).run(ignore)
    changed.append(rows(CHANGED, range(10, 12)), 4)
    changed.cluster(0)
    stored = DeltaTable(changed.data_folder).to_pyarrow_table()
    assert sorted(stored["v"].to_pylist())[-1] == 11.0 and changed.append_count == 4


def test_value_that_would_change_is_named(table: StreamTable, tmp_path: Path) -> None:
    large = rows(SCHEMA, range(20, 22), chunk=1)
    values = pa.array([2**53, 2**53 + 1], pa.int64())
    large = large.set_column(large.column_names.index("v"), "v", values)
    table.append(large, 4)
    changed = StreamTable(tmp_path, CHANGED)
    assert len(read(changed)) == 10  # nothing that reads stops
    rewrite = ColumnRewrite(changed)
    with pytest.raises(ValueLost, match=f"the value {2**53 + 1} in chunk 1 would change"):
        rewrite.check_values(ignore)


def test_removed_column_keeps_its_values(table: StreamTable, tmp_path: Path) -> None:
    columns = {"ts": "timestamp", "host": "string", "day": "date"}
    removed = StreamTable(tmp_path, replace(SCHEMA, columns=columns))
    removed.append(rows(removed.schema, range(10, 12)), 4)
    removed.cluster(0)
    assert sorted(StreamTable(tmp_path, SCHEMA).read(["v"], 0)["v"].to_pylist(), key=str) == [
        *range(1, 7),
        None,
        None,
    ]


def test_inexact_integers() -> None:
    exact = [None, 0, 2**53, -(2**53), 2**60, -(2**63)]
    assert find_inexact(pa.array(exact, pa.int64())) is None
    for value in (2**53 + 1, -(2**53) - 1, 2**63 - 1):
        assert find_inexact(pa.array([*exact, value], pa.int64())) == value
