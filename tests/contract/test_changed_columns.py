"""After each kind of change of columns all readers read the same rows, before and after the commit."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from archiver.delta import ColumnRewrite, StreamSchema, StreamTable, fingerprint
from archiver.read import Reader
from archiver.time_range import ALL_TIME
from recall.statements import DuckDBStatements, Statement, scan_files

pytestmark = pytest.mark.services

COLUMNS = {
    "ts": "timestamp",
    "host": "string",
    "n": "int",
    "v": "bigint",
    "f": "float",
    "day": "date",
}
SCHEMA = StreamSchema("s", COLUMNS, "ts", ("host",), ("host",), timedelta(0), timedelta(0))
VALUES: dict[str, Callable[[int], Any]] = {
    "timestamp": lambda number: datetime(2026, 1, 1, second=number, tzinfo=UTC),
    "string": lambda number: f"h{number}",
    "int": lambda number: number,
    "bigint": lambda number: 2**53 - number,
    "float": lambda number: number / 10,
    "double": lambda number: number / 3,
    "date": lambda number: date(2026, 1, 1) + timedelta(number),
}


def to_double(value: Any) -> Any:
    return None if value is None else float(value)


def to_time(value: Any) -> Any:
    return None if value is None else datetime(value.year, value.month, value.day, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """`columns`: declared after it. `value`: of the changed column, from its value before."""

    columns: dict[str, str]
    column: str
    source: str | None
    value: Callable[[Any], Any] = lambda value: value
    was: dict[str, str] | None = None


def widen(column: str, new_type: str, value: Callable[[Any], Any] = lambda value: value) -> Change:
    return Change({**COLUMNS, column: new_type}, column, column, value)


CHANGES = {
    "int to bigint": widen("n", "bigint"),
    "int to double": widen("n", "double", to_double),
    "bigint to double": widen("v", "double", to_double),
    "float to double": widen("f", "double"),
    "date to timestamp": widen("day", "timestamp", to_time),
    "added": Change({**COLUMNS, "new": "double"}, "new", None),
    "removed": Change({name: COLUMNS[name] for name in COLUMNS if name != "v"}, "host", "host"),
    "renamed": Change(
        {("machine" if name == "host" else name): kind for name, kind in COLUMNS.items()},
        "machine",
        "host",
        was={"machine": "host"},
    ),
    "renamed and widened": Change(
        {("w" if name == "v" else name): kind for name, kind in {**COLUMNS, "v": "double"}.items()},
        "w",
        "v",
        to_double,
        was={"w": "v"},
    ),
}


def rows(schema: StreamSchema, numbers: range) -> pa.Table:
    fields = schema.arrow_schema()
    content = pa.table(
        {
            **{
                name: pa.array(map(VALUES[kind], numbers), fields.field(name).type)
                for name, kind in schema.columns.items()
            },
            "_extra": pa.nulls(len(numbers), pa.string()),
        }
    )
    ids, hashes = fingerprint(schema, content)
    added = {
        "_late": pa.repeat(pa.scalar(False), len(numbers)),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.repeat(pa.scalar(1, pa.int64()), len(numbers)),
        "_line": pa.array(numbers, pa.int64()),
        "chunk": pa.repeat(pa.scalar(numbers[0] // 8, pa.int32()), len(numbers)),
    }
    for name, values in added.items():
        content = content.append_column(name, values)
    return content


def read_by_pyarrow(_: SparkSession, table: StreamTable, columns: list[str]) -> pa.Table:
    return table.read(columns)


def read_by_moirae_with_spark(
    spark: SparkSession, table: StreamTable, columns: list[str]
) -> pa.Table:
    reader = Reader(table.data_folder.parents[1], [table.schema])
    return reader.read_dataframe(spark, "s", ALL_TIME, True, {}).select(columns).toArrow()


def read_by_moirae_with_duckdb(_: SparkSession, table: StreamTable, columns: list[str]) -> pa.Table:
    snapshot = Reader(table.data_folder.parents[1], [table.schema]).snapshot("s")
    names = ", ".join(map('"{}"'.format, columns))
    return DuckDBStatements().run(Statement(f"SELECT {names} FROM {scan_files(snapshot)}"))


def read_by_spark(spark: SparkSession, table: StreamTable, columns: list[str]) -> pa.Table:
    frame = spark.read.format("delta").load(str(table.data_folder))
    return frame.select(columns).toArrow()


def read_by_delta_rs(_: SparkSession, table: StreamTable, columns: list[str]) -> pa.Table:
    return DeltaTable(table.data_folder).to_pyarrow_table(columns=columns)


def read_by_pandas(_: SparkSession, table: StreamTable, columns: list[str]) -> pa.Table:
    frame = DeltaTable(table.data_folder).to_pandas(columns=columns)
    return pa.Table.from_pandas(frame, preserve_index=False)


def read_by_duckdb(_: SparkSession, table: StreamTable, columns: list[str]) -> pa.Table:
    """As docs/howto/read-the-archive.md does: through delta-rs."""
    archived = DeltaTable(table.data_folder).to_pyarrow_dataset()
    assert archived is not None
    return duckdb.sql(f"SELECT {', '.join(columns)} FROM archived").to_arrow_table()


OWN_READERS = (read_by_pyarrow, read_by_moirae_with_spark, read_by_moirae_with_duckdb)
ALL_READERS = (*OWN_READERS, read_by_spark, read_by_delta_rs, read_by_pandas, read_by_duckdb)


SLOW_CHANGES = CHANGES.keys() - {"added", "renamed and widened"}


@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW_CHANGES else [])
        for name in CHANGES
    ]
)
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]


@pytest.mark.slow
def test_all_readers_read_the_same_rows(
    spark: SparkSession, tmp_path: Path, change: Change
) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for start in range(0, 12, 3):
        table.append(rows(SCHEMA, range(start, start + 3)), start)
    table.cluster(0)
    table.append(rows(SCHEMA, range(12, 14)), 5)
    expected: dict[str, Any] = {}
    for number in range(14):
        value = None
        if change.source is not None:
            stored = pa.scalar(
                VALUES[COLUMNS[change.source]](number),
                SCHEMA.arrow_schema().field(change.source).type,
            )
            value = change.value(stored.as_py())
        expected[VALUES["timestamp"](number).isoformat()] = value

    changed = replace(SCHEMA, columns=change.columns, was=change.was or {}, key=())
    changed = replace(changed, id=("machine",) if "machine" in change.columns else ("host",))
    table = StreamTable(tmp_path, changed)
    if change.column == "new":
        table.declare()
    compare(spark, table, change.column, expected, OWN_READERS)
    if table.is_rewriting:
        ColumnRewrite(table).run(lambda _: None)
    compare(spark, table, change.column, expected, ALL_READERS)

    table.append(rows(changed, range(20, 22)), 6)
    for number in (20, 21):
        arrow_type = changed.arrow_schema().field(change.column).type
        value = pa.scalar(VALUES[change.columns[change.column]](number), arrow_type).as_py()
        expected[VALUES["timestamp"](number).isoformat()] = value
    compare(spark, table, change.column, expected, ALL_READERS)
    table.cluster(0)
    compare(spark, table, change.column, expected, ALL_READERS)


def compare(
    spark: SparkSession,
    table: StreamTable,
    column: str,
    expected: dict[str, Any],
    readers: tuple[Callable[[SparkSession, StreamTable, list[str]], pa.Table], ...],
) -> None:
    arrow_type = table.schema.arrow_schema().field(column).type
    for read in readers:
        archived = read(spark, table, ["ts", column])
        times = archived["ts"].cast(pa.timestamp("us", tz="UTC")).to_pylist()
        values = archived[column].cast(arrow_type).to_pylist()
        by_time = {time.isoformat(): value for time, value in zip(times, values, strict=True)}
        assert by_time == expected, read.__name__
        if not pa.types.is_string(arrow_type) and any(value is not None for value in values):
            assert str(archived[column].type).startswith(str(arrow_type).split("[")[0]), read
