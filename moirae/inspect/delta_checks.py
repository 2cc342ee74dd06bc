"""Checks of the tables of streams with the delta-spark package: history, detail, versions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from archiver.delta import DataFile, StreamSchema, StreamTable
from moirae.config import Settings
from moirae.inspect.finding import Finding
from moirae.inspect.readers import select_chunks, try_chunk
from moirae.runtime.storage import open_storage

# Operations that leave all rows as they are.
_HARMLESS_OPERATIONS = (
    "ADD COLUMN",
    "ADD COLUMNS",
    "ADD FEATURE",
    "CREATE TABLE",
    "OPTIMIZE",
    "REPLACE COLUMNS",
    "SET TBLPROPERTIES",
    "UPGRADE PROTOCOL",
    "VACUUM END",
    "VACUUM START",
)


def run_delta_checks(
    settings: Settings, schemas: Sequence[StreamSchema], spark: SparkSession
) -> list[Finding]:
    """Compare what Spark and Moirae read, and report commits of other programs.

    `schemas`: of all archived streams, see `moirae.runtime.storage.archived_streams`.
    Tables in object storage are not checked: Spark's sessions have no access to it.
    """
    if settings.local_archive is None:
        return [Finding("Delta tables, by Spark", (), "not checked: in object storage")]
    storage = open_storage(settings)
    findings: list[Finding] = []
    for schema in schemas:
        if StreamTable.exists(storage, schema.table_name):
            findings += _check_table(schema.name, StreamTable(storage, schema), spark)
    return findings


def _check_table(stream: str, table: StreamTable, spark: SparkSession) -> list[Finding]:
    folder = table.data_folder
    version = table.version
    row_count = sum(file.rows for file in table.data_files())
    delta_table = DeltaTable.forPath(spark, str(folder))
    detail = delta_table.detail().collect()[0]
    commits = delta_table.history().collect()
    return [
        _check_rows(stream, spark, folder, version, row_count, detail),
        _check_columns(stream, spark, table),
        _check_earlier_version(stream, spark, folder, commits),
        _check_commits(stream, commits),
    ]


def _count(spark: SparkSession, folder: Path, version: int) -> int:
    return spark.read.format("delta").option("versionAsOf", version).load(str(folder)).count()


def _check_rows(
    stream: str, spark: SparkSession, folder: Path, version: int, row_count: int, detail: Any
) -> Finding:
    counted = _count(spark, folder, version)
    problems = []
    if counted != row_count:
        problems.append(f"version {version}: {row_count} rows in the log, Spark reads {counted}")
    summary = (
        f"{counted:,} rows in version {version}, {detail.numFiles:,} files, protocol "
        f"{detail.minReaderVersion}/{detail.minWriterVersion}"
    )
    return Finding(f"{stream}: Spark reads as many rows as the log lists", problems, summary)


def _check_columns(stream: str, spark: SparkSession, table: StreamTable) -> Finding:
    """All columns of a chunk of each layout of files can be read."""

    def read_chunk(table: StreamTable, chunk: int, files: Sequence[DataFile]) -> int:
        reader = spark.read.format("delta").option("versionAsOf", table.version)
        rows = reader.load(str(table.data_folder)).where(F.col("chunk") == chunk)
        (counted,) = rows.select(F.count(F.hash("*"))).collect()
        return int(counted[0])

    chunks = select_chunks(table)
    problems = [try_chunk(table, chunk, read_chunk) for chunk in chunks]
    reported = [problem for problem in problems if problem is not None]
    return Finding(f"{stream}: readable by Spark", reported, f"{len(chunks)} chunks read")


def _check_earlier_version(
    stream: str, spark: SparkSession, folder: Path, commits: list[Any]
) -> Finding:
    """A version from the middle of the history can be read: `archive_history` keeps its files.

    Files of the oldest versions may be about to be deleted.
    """
    check = f"{stream}: earlier versions can be read"
    retained = [commit for commit in commits if commit.version > 0]
    if not retained:
        return Finding(check, (), "none yet")
    commit = retained[len(retained) // 2]
    try:
        rows = _count(spark, folder, commit.version)
    except (PySparkException, Py4JJavaError) as error:
        message = str(error).strip().splitlines()[0]
        return Finding(check, [f"version {commit.version} of {commit.timestamp}: {message}"])
    return Finding(check, (), f"version {commit.version} of {commit.timestamp}: {rows:,} rows")


def _check_commits(stream: str, commits: list[Any]) -> Finding:
    """Commits of other programs: appends are history, other changes lose rows or their order."""
    problems = []
    appends = 0
    for commit in commits:
        if (commit.engineInfo or "Moirae").startswith("Moirae"):
            continue
        mode = (commit.operationParameters or {}).get("mode")
        if commit.operation in ("WRITE", "STREAMING UPDATE") and mode != "Overwrite":
            appends += 1
        elif commit.operation not in _HARMLESS_OPERATIONS:
            problems.append(
                f"version {commit.version}: {commit.operation} by {commit.engineInfo} changed "
                f"rows; version {commit.version - 1} has the rows before the change"
            )
    summary = f"{len(commits):,} commits, {appends:,} appends of other programs"
    return Finding(f"{stream}: no rows were changed by other programs", problems, summary)
