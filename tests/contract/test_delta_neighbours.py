"""Other programs beside Moirae: Spark with delta-spark, and delta-rs, read and append to its tables."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from archiver.delta import derived_tables, log
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.errors import IncompatibleTable
from archiver.read.reader import Reader
from archiver.spark import vacuum_table
from archiver.time_range import ALL_TIME
from moirae.config import stream_schema
from moirae.config.settings import load_settings
from moirae.inspect.delta_checks import run_delta_checks
from tests.derived_chunks import replace_chunk
from tests.unit.archiver.delta.test_table import SCHEMA, rows

pytestmark = pytest.mark.services

_HISTORY = 86_400.0  # seconds


@pytest.fixture(autouse=True)
def _sql_on_files(spark: SparkSession) -> Iterator[None]:
    """As in other jobs. Moirae's own sessions do not allow it to rules."""
    spark.conf.set("spark.sql.runSQLOnFiles", "true")
    yield
    spark.conf.set("spark.sql.runSQLOnFiles", "false")


@pytest.fixture
def table(tmp_path: Path) -> StreamTable:
    """Three appends, clustered, and one more."""
    table = StreamTable(tmp_path, SCHEMA)
    for number in range(3):
        table.append(rows(range(10 * number, 10 * number + 10)), batch=number + 1)
    table.cluster(0)
    table.append(rows(range(30, 40)), batch=4)
    return table


def numbers(frame_rows: list[Row]) -> list[int]:
    return sorted(row["n"] for row in frame_rows)


def read_numbers(spark: SparkSession, table: StreamTable, **options: object) -> list[int]:
    reader = spark.read.format("delta")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return numbers(reader.load(str(table.data_folder)).select("n").collect())


def read_by_library(folder: Path, version: int | datetime | None = None) -> list[int]:
    delta_table = DeltaTable(folder)
    if version is not None:
        delta_table.load_as_version(version)
    return sorted(delta_table.to_pyarrow_table()["n"].to_pylist())


def append_by_library(
    _: SparkSession, table: StreamTable, new: range, *, stats: bool = True
) -> None:
    """As `append_by_spark`, with delta-rs. Without statistics: it still counts the rows."""
    copied = DeltaTable(table.data_folder).to_pyarrow_table()
    (row,) = [row for row in copied.to_pylist() if row["n"] == 1]
    copies = pa.Table.from_pylist(
        [{**row, "n": number, "_late": False} for number in new], copied.schema
    )
    properties = None
    if not stats:
        columns = ColumnProperties(statistics_enabled="NONE")
        properties = WriterProperties(default_column_properties=columns)
    write_deltalake(table.data_folder, copies, mode="append", writer_properties=properties)


def append_by_spark(
    spark: SparkSession, table: StreamTable, new: range, *, stats: bool = True
) -> None:
    """Rows as someone makes them who copies what is there: also the columns of the archive."""
    spark.conf.set("spark.databricks.delta.stats.collect", str(stats).lower())
    try:
        frame = spark.read.format("delta").load(str(table.data_folder)).where("n = 1")
        copies = frame.drop("n").crossJoin(spark.range(new.start, new.stop).toDF("n"))
        copies = copies.withColumn("_late", copies["_late"] & False)
        copies.write.format("delta").mode("append").save(str(table.data_folder))
    finally:
        spark.conf.unset("spark.databricks.delta.stats.collect")


@pytest.mark.slow
def test_history_shows_operation_metrics_and_user_metadata(
    spark: SparkSession, table: StreamTable
) -> None:
    table.delete_chunk(0)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{table.data_folder}`").collect()
    assert [row.operation for row in history] == [
        "DELETE", "WRITE", "OPTIMIZE", "WRITE", "WRITE", "WRITE", "CREATE TABLE",
    ]  # fmt: skip
    delete, write, optimize = history[:3]
    assert write.operationMetrics["numOutputRows"] == "10" and write.isBlindAppend
    assert write.operationMetrics["numFiles"] == "1"
    assert write.userMetadata == '{"append":4,"batch":4}'
    assert write.operationParameters["mode"] == "Append"
    assert optimize.operationMetrics["numRemovedFiles"] == "3" and not optimize.isBlindAppend
    assert delete.operationMetrics["numDeletedRows"] == "40"
    assert all(row.engineInfo.startswith("Moirae") for row in history)
    times = [row.timestamp for row in history]
    assert times == sorted(times, reverse=True) and len(set(times)) == len(times)


def version_times(spark: SparkSession, folder: Path) -> dict[int, datetime]:
    history = spark.sql(f"DESCRIBE HISTORY delta.`{folder}`")
    times = history.selectExpr("version", "unix_millis(timestamp) AS ms").collect()
    return {row.version: datetime.fromtimestamp(row.ms / 1000, UTC) for row in times}


def read_as_of(spark: SparkSession, folder: Path, time: datetime) -> list[int]:
    text = time.strftime("%Y-%m-%d %H:%M:%S.%f")
    frame = spark.read.format("delta").option("timestampAsOf", text).load(str(folder))
    return numbers(frame.select("n").collect())


def set_times_of_versions(folder: Path, first: datetime) -> None:
    """Date the commit files one second apart."""
    for commit in (folder / "_delta_log").glob("*.json"):
        seconds = first.timestamp() + int(commit.stem)
        os.utime(commit, (seconds, seconds))


@pytest.mark.slow
def test_versions_are_read_by_number_and_by_time(
    spark: SparkSession, table: StreamTable, tmp_path: Path
) -> None:
    folder = table.data_folder
    second = version_times(spark, folder)[2]
    assert read_numbers(spark, table, versionAsOf=2) == list(range(20))
    assert read_as_of(spark, folder, second) == list(range(20))
    assert read_by_library(folder, 2) == list(range(20))
    assert read_by_library(folder, second + timedelta(milliseconds=1)) == list(range(20))
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)  # with the times of files
    assert version_times(spark, copy) == version_times(spark, folder)
    assert read_as_of(spark, copy, second) == list(range(20))


@pytest.mark.slow
def test_copy_without_times_of_files_is_read_by_number_only(
    spark: SparkSession, table: StreamTable, tmp_path: Path
) -> None:
    """The documented limit: Spark dates versions by their files."""
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    set_times_of_versions(table.data_folder, start)
    second = start + timedelta(seconds=2)
    assert read_as_of(spark, table.data_folder, second) == list(range(20))
    copy = tmp_path / "copy"
    shutil.copytree(table.data_folder, copy, copy_function=shutil.copyfile)
    with pytest.raises(AnalysisException, match=r"(?i)timestamp"):
        read_as_of(spark, copy, second)
    frame = spark.read.format("delta").option("versionAsOf", 2).load(str(copy))
    assert numbers(frame.select("n").collect()) == list(range(20))


@pytest.mark.slow
def test_in_commit_timestamps_that_another_program_enables_are_written(
    spark: SparkSession, table: StreamTable, tmp_path: Path
) -> None:
    """They survive copying; delta-rs does not write to such a table."""
    folder = table.data_folder
    spark.sql(
        f"ALTER TABLE delta.`{folder}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"
    )
    table.append(rows(range(40, 50)), batch=5)
    version = table.version
    reopened = StreamTable(folder.parents[1], SCHEMA)
    reopened.append(rows(range(50, 60)), batch=6)
    reopened.set_history(_HISTORY / 2)
    copy = tmp_path / "copy"
    time.sleep(0.01)
    shutil.copytree(folder, copy, copy_function=shutil.copyfile)
    times = version_times(spark, copy)
    assert times[version] < times[version + 1] < times[version + 2]
    assert read_as_of(spark, copy, times[version]) == list(range(50))


@pytest.mark.slow
def test_checkpoints_serve_spark_and_the_deltalake_library(
    spark: SparkSession, table: StreamTable
) -> None:
    with patch.object(log, "_CHECKPOINT_INTERVAL", 1):
        table.checkpoint()
    for commit in (table.data_folder / "_delta_log").glob("*.json"):
        if int(commit.stem) < table.version:
            commit.unlink()
    table.append(rows(range(40, 50)), batch=5)
    assert read_numbers(spark, table) == list(range(50))
    assert read_by_library(table.data_folder) == list(range(50))
    SparkTable.forPath(spark, str(table.data_folder))._jdt.deltaLog().checkpoint()
    table.append(rows(range(50, 60)), batch=6)
    reopened = StreamTable(table.storage.data_folder.parents[1], SCHEMA)
    assert sum(file.rows for file in reopened.data_files()) == 60
    assert reopened.append_count == 6
    detail = SparkTable.forPath(spark, str(table.data_folder)).detail().collect()[0]
    assert detail.numFiles == len(reopened.data_files())


@pytest.mark.slow
def test_stream_sees_each_row_once_although_files_are_clustered(
    spark: SparkSession, table: StreamTable, tmp_path: Path
) -> None:
    seen: Counter[int] = Counter()

    def read_new_rows() -> None:
        stream = spark.readStream.format("delta").load(str(table.data_folder))
        query = (
            stream.writeStream.foreachBatch(
                lambda frame, _: seen.update(row["n"] for row in frame.collect())
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    read_new_rows()
    table.append(rows(range(40, 50)), batch=5)
    table.cluster(0)
    read_new_rows()
    append_by_spark(spark, table, range(100, 105))
    table.append(rows(range(50, 60)), batch=6)
    read_new_rows()
    table.adopt_foreign_files()
    table.cluster(0)
    table.set_history(_HISTORY / 2)
    read_new_rows()
    assert seen == Counter([*range(60), *range(100, 105)])


@pytest.mark.slow
def test_change_feed_and_old_versions_last_as_long_as_the_history(
    spark: SparkSession, table: StreamTable
) -> None:
    """Superseded files stay, also for a process that starts later, until the history is over."""
    table.cluster(0)
    table.delete_chunk(0)
    for vacuum in (Vacuum(0.0, _HISTORY), Vacuum(0.0, _HISTORY)):
        vacuum.run([StreamTable(table.storage.data_folder.parents[1], SCHEMA)], 0.0)
    assert read_numbers(spark, table, versionAsOf=2) == list(range(20))
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    changes = reader.option("startingVersion", 1).load(str(table.data_folder)).collect()
    counts = Counter(row["_change_type"] for row in changes)
    assert counts == {"insert": 40, "delete": 40}
    feed = pa.table(DeltaTable(table.data_folder).load_cdf(starting_version=1).read_all())
    assert Counter(feed["_change_type"].to_pylist()) == counts
    assert table.history_bytes(_HISTORY) > 0
    reopened = StreamTable(table.storage.data_folder.parents[1], SCHEMA)
    Vacuum(0.0, 0.0).run([reopened], 0.0)
    assert list(table.data_folder.glob("chunk=*/*.parquet")) == []


@pytest.mark.slow
def test_commits_stay_as_long_as_the_history(spark: SparkSession, table: StreamTable) -> None:
    """Also when a checkpoint has replaced them."""
    log_folder = table.data_folder / "_delta_log"
    set_times_of_versions(table.data_folder, datetime.now(UTC) - timedelta(hours=2))
    with patch.object(log, "_CHECKPOINT_INTERVAL", 1):
        table.checkpoint()
        assert len(list(log_folder.glob("*.json"))) == table.version + 1
        table.set_history(3_600.0)
        table.append(rows(range(40, 50)), batch=5)
        table.checkpoint()
    remaining = sorted(int(commit.stem) for commit in log_folder.glob("*.json"))
    assert remaining[0] > 0 and remaining[-1] == table.version
    assert read_numbers(spark, table) == list(range(50))


@pytest.mark.slow
def test_each_version_of_the_history_is_readable_after_old_commits_are_deleted(
    spark: SparkSession, table: StreamTable
) -> None:
    """Those before the newest checkpoint need an earlier one, or their first commits."""
    start = datetime.now(UTC) - timedelta(hours=2)
    set_times_of_versions(table.data_folder, start)
    with patch.object(log, "_CHECKPOINT_INTERVAL", 1):
        table.checkpoint()
    for number in range(4, 8):
        table.append(rows(range(10 * number, 10 * number + 10)), batch=number + 1)
    newest = table.version
    table.set_history(3_600.0)
    with patch.object(log, "_CHECKPOINT_INTERVAL", 1):
        table.checkpoint()
    for version in range(newest - 3, newest + 1):
        count = 40 + 10 * (version - newest + 4)
        assert read_numbers(spark, table, versionAsOf=version) == list(range(count))
        assert read_by_library(table.data_folder, version) == list(range(count))


@pytest.mark.slow
def test_vacuum_by_spark_keeps_the_history_and_what_the_table_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As derived streams are maintained."""
    ts = pa.array([1, 2], pa.timestamp("us", tz="UTC"))
    content = pa.table({"ts": ts, "n": pa.array([1, 2])})
    table = derived_tables.open_or_create_table(tmp_path, "d", "v", content.schema)
    for _ in range(2):
        replace_chunk(table, content, 0)
    SparkTable.forPath(spark, str(table.data_folder)).update("n = 2", {"n": "3"})
    change_files = list(table.data_folder.glob("_change_data/**/*.parquet"))
    vacuum_table(spark, table.data_folder, _HISTORY)
    assert read_numbers(spark, table, versionAsOf=1) == [1, 2]
    assert change_files and all(file.exists() for file in change_files)
    vacuum_table(spark, table.data_folder, 0.0)
    table.refresh()
    (file,) = table.data_folder.glob("chunk=*/*.parquet")
    assert [str(file)] == table.local_paths()
    assert not any(file.exists() for file in change_files)
    assert read_numbers(spark, table) == [1, 3]
    replace_chunk(table, content, 0)
    assert read_by_library(table.data_folder) == [1, 2]


def test_file_list_of_the_library_is_read_by_duckdb(table: StreamTable) -> None:
    files = DeltaTable(table.data_folder).file_uris()
    query = "SELECT count(*), max(n) FROM read_parquet($files, union_by_name = true)"
    with duckdb.connect() as connection:
        assert connection.execute(query, {"files": files}).fetchall() == [(40, 39)]


def count_by_duckdb(table: StreamTable) -> int:
    """As history queries read files; Spark may write times in another type."""
    query = (
        "SELECT count(*) FROM read_parquet($files, union_by_name = true, hive_partitioning = false)"
        " WHERE ts >= TIMESTAMPTZ '1970-01-01 00:00:00Z' AND ts < TIMESTAMPTZ '1970-01-02 00:00:00Z'"
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        (count,) = connection.execute(query, {"files": table.local_paths()}).fetchall()[0]
    return int(count)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("append", "stats", "is_adopted"),
    [
        (append_by_library, False, False),
        (append_by_spark, False, True),
        (append_by_spark, True, True),
        (append_by_spark, True, False),
        (append_by_spark, False, False),
        (append_by_library, True, True),
        (append_by_library, True, False),
        (append_by_library, False, True),
    ],
)
def test_rows_that_others_append_are_history_and_not_accounted(
    spark: SparkSession,
    table: StreamTable,
    append: Callable[..., None],
    stats: bool,
    is_adopted: bool,
) -> None:
    root = table.storage.data_folder.parents[1]
    append(spark, table, range(100, 105), stats=stats)
    table.refresh()
    if is_adopted:
        table.adopt_foreign_files()
        table.adopt_foreign_files()
    table.append(rows(range(40, 50)), batch=5)
    table.cluster(0)
    expected = [*range(50), *range(100, 105)]
    for opened in (table, StreamTable(root, SCHEMA)):
        assert sum(file.rows for file in opened.foreign_files()) == 5
        assert sum(file.rows for file in opened.data_files()) == 55
        assert sorted(opened.read(["n"])["n"].to_pylist()) == expected
        assert sorted(opened.read_accounted(["n"], 0)["n"].to_pylist()) == list(range(50))
        assert len(opened.read_identities(0)[0]) == 50
        on_time = [opened.read_on_time(file.path, ["n"]) for file in opened.data_files()]
        assert max(part["n"].to_pylist() for part in on_time if len(part))[-1] < 100
    assert count_by_duckdb(table) == 55
    reader = Reader(root, [SCHEMA])
    all_rows = reader.read_dataframe(spark, "s", ALL_TIME, True, {}).collect()
    assert numbers(all_rows) == expected
    on_time_rows = reader.read_dataframe(spark, "s", ALL_TIME, False, {}).collect()
    assert numbers(on_time_rows) == [n for n in range(50) if n % 3]
    assert read_numbers(spark, table) == read_by_library(table.data_folder) == expected


@pytest.mark.slow
def test_archive_continues_after_another_program_has_optimized_its_files(
    spark: SparkSession, table: StreamTable
) -> None:
    table.append(rows(range(40, 50)), batch=5)
    SparkTable.forPath(spark, str(table.data_folder)).optimize().executeCompaction()
    root = table.storage.data_folder.parents[1]
    table.append(rows(range(50, 60)), batch=6)
    for opened in (table, StreamTable(root, SCHEMA)):
        assert opened.foreign_files() == []
        assert len(set(opened.read_identities(0)[0]["id"])) == 60
    table.cluster(0)
    assert len(table.read_identities(0)[0]) == 60 and table.append_count == 6


@pytest.mark.slow
def test_deleted_rows_are_gone_and_nothing_stops(spark: SparkSession, table: StreamTable) -> None:
    SparkTable.forPath(spark, str(table.data_folder)).delete("n < 5")
    table.append(rows(range(40, 50)), batch=5)
    table.cluster(0)
    assert read_numbers(spark, table) == list(range(5, 50))
    assert len(StreamTable(table.data_folder.parents[1], SCHEMA).read_identities(0)[0]) == 45


@pytest.mark.slow
def test_added_columns_and_appends_with_them_are_tolerated(
    spark: SparkSession, table: StreamTable
) -> None:
    spark.sql(f"ALTER TABLE delta.`{table.data_folder}` ADD COLUMNS (note string)")
    frame = spark.createDataFrame([("x", 200, 0)], "note string, n bigint, chunk int")
    frame.write.format("delta").mode("append").save(str(table.data_folder))
    table.append(rows(range(40, 50)), batch=5)
    table.adopt_foreign_files()
    notes = spark.read.format("delta").load(str(table.data_folder)).where("note IS NOT NULL")
    assert [(row.n, row.note, row.ts) for row in notes.collect()] == [(200, "x", None)]
    assert sum(file.rows for file in table.foreign_files()) == 1


@pytest.mark.slow
def test_foreign_rows_stay_foreign_when_another_program_rewrites_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With archived rows in one file they are told apart by their source unit."""
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(10)), batch=1)
    table.append(rows(range(10, 20), chunk=1), batch=2)
    for _ in range(2):
        append_by_spark(spark, table, range(100, 105))
    folder = table.data_folder
    for number in (100, 15, 16):
        DeltaTable(folder).delete(f"n = {number}")
    for opened in (table, StreamTable(tmp_path, SCHEMA)):
        opened.refresh()
        assert sum(file.rows for file in opened.foreign_files()) == 8
        assert [len(opened.read_identities(chunk)[0]) for chunk in (0, 1)] == [10, 8]
    table.adopt_foreign_files()
    assert DeltaTable(folder).optimize.compact()["numFilesRemoved"] == 2
    for opened in (table, StreamTable(tmp_path, SCHEMA)):
        opened.refresh()
        assert opened.foreign_files() == []
        assert len(opened.read(["n"], 0)) == 18
        assert [len(opened.read_identities(chunk)[0]) for chunk in (0, 1)] == [10, 8]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            "requires Delta reader version 3",
        ),
        (
            "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
            "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')",
            "requires Delta reader version",
        ),
    ],
)
def test_change_that_cannot_be_read_is_an_error_with_table_and_version(
    spark: SparkSession, table: StreamTable, statement: str, reason: str
) -> None:
    version = table.version + 1
    spark.sql(statement.format(f"delta.`{table.data_folder}`"))
    with pytest.raises(
        IncompatibleTable, match=f"{table.data_folder}: version {version} .*{reason}"
    ):
        table.append(rows(range(40, 50)), batch=5)
    with pytest.raises(
        IncompatibleTable, match=f"{table.data_folder}: version {version} .*{reason}"
    ):
        StreamTable(table.data_folder.parents[1], SCHEMA)


@pytest.mark.slow
def test_replaced_schema_is_an_error_until_the_table_is_restored(
    spark: SparkSession, table: StreamTable
) -> None:
    version = table.version
    frame = spark.createDataFrame([(1, 0)], "other bigint, chunk int")
    writer = frame.write.format("delta").mode("overwrite").partitionBy("chunk")
    writer.option("overwriteSchema", "true").save(str(table.data_folder))
    with pytest.raises(IncompatibleTable, match=r"version 6 \(WRITE by .*\) changes or drops"):
        table.append(rows(range(40, 50)), batch=5)
    SparkTable.forPath(spark, str(table.data_folder)).restoreToVersion(version)
    reopened = StreamTable(table.data_folder.parents[1], SCHEMA)
    reopened.append(rows(range(40, 50)), batch=5)
    assert read_numbers(spark, reopened) == list(range(50))


def test_archive_continues_after_the_deltalake_library_has_rewritten_files(
    spark: SparkSession, table: StreamTable
) -> None:
    folder = table.data_folder
    table.append(rows(range(40, 50)), batch=5)
    assert DeltaTable(folder).optimize.compact()["numFilesRemoved"] == 3
    DeltaTable(folder).delete("n < 5")
    for opened in (table, StreamTable(folder.parents[1], SCHEMA)):
        opened.refresh()
        first = 10 * opened.append_count
        opened.append(rows(range(first, first + 10)), batch=6)
        opened.cluster(0)
        assert opened.foreign_files() == []
    assert read_numbers(spark, table) == read_by_library(folder) == list(range(5, 70))


@pytest.mark.slow
def test_doctor_with_spark_reports_commits_of_other_programs(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "moirae.yaml").write_text(
        "streams:\n"
        "  s: {columns: {ts: timestamp, n: bigint}, time: ts, id: [n], source: {http: true}}\n"
    )
    settings = load_settings(tmp_path / "moirae.yaml", {})
    schemas = [stream_schema(name, stream) for name, stream in settings.streams.items()]
    assert run_delta_checks(settings, schemas, spark) == []
    root = tmp_path / ".moirae" / "archive"
    table = StreamTable(root, SCHEMA)
    table.append(rows(range(10)), batch=1)
    append_by_spark(spark, table, range(100, 105))
    findings = run_delta_checks(settings, schemas, spark)
    assert [finding.problems for finding in findings] == [[], [], (), []]
    assert findings[0].summary.startswith("15 rows in version 2, 2 files, protocol 1/7")
    assert findings[3].summary == "3 commits, 1 appends of other programs"
    SparkTable.forPath(spark, str(table.data_folder)).delete("n = 1")
    (problem,) = run_delta_checks(settings, spark)[3].problems
    assert problem.startswith("version 3: DELETE by Apache-Spark")
