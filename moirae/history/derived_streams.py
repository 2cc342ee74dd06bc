"""Archives derived streams: those with `archive: true` and those that deployed recalls read.

Present and recent closed chunks are computed newest first, each once the watermark has passed all
its input. Archived streams that no rule needs are removed.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import sql
from archiver.chunks import Chunk
from archiver.delta import DataFile, StreamTable, TableFiles, Vacuum, derived_tables
from archiver.errors import ArchiverError, CommitConflict
from archiver.executors import Jobs, SparkJobs
from archiver.periodic import Timer
from archiver.read import Reader, filter_time_range
from archiver.spark import vacuum_table
from archiver.storage import LocalStorage, StorageRoot, as_storage
from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.evaluation import ArchivedStreamRows
from moirae.evaluation.plan import input_view, relation_view
from moirae.history.attempts import Attempts
from moirae.history.finder import RelationVersions
from moirae.history.plan import MAX_ATTEMPTS
from moirae.rules import Definition, HistoryRecall, build_rule_tables
from recall.engines.derived_streams import compute_derived_version
from recall.query import (
    PhysicalTables,
    Shape,
    Tables,
    Unsupported,
    bind_query,
    infer_shape,
    tables_used,
)
from sql.archive import DerivedChunkGateway

_LOG = structlog.get_logger()

# Seconds before unneeded files are deleted: longer than a history query takes.
_DELETION_GRACE = 3600.0
# Seconds between two vacuums of a local table.
_VACUUM_INTERVAL = 3600.0
_MAX_ERROR_LENGTH = 2000  # characters


@dataclass(frozen=True)
class DerivedStreamVersion:
    """A version of an archived derived stream: its query and the tables it may use."""

    name: str
    version: str
    query: str
    tables: Tables
    shape: Shape


@dataclass(frozen=True)
class DerivedStreamTask:
    """A complete chunk of a derived stream that is to be archived."""

    stream: DerivedStreamVersion
    chunk: int
    range: TimeRange


def select_archived_streams(
    definitions: Collection[Definition],
    streams: Mapping[str, str],
    relations: frozenset[str],
    altered: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[DerivedStreamVersion]:
    """The derived streams with `archive: true`, or named by a recall of these rules.

    `altered`: see `compute_derived_version`.
    """
    archived: dict[tuple[str, str], DerivedStreamVersion] = {}
    for definition in definitions:
        rule = definition.rule
        tables = build_rule_tables(rule, streams, relations)
        names = {stream.stream for stream in rule.derived if stream.archive}
        for recall in rule.spec.recall.values():
            if isinstance(recall, HistoryRecall):
                names |= tables_used(recall.sql, tables.derived.keys())
        names -= {stream.name for stream in rule.event_streams}  # computed from declared streams
        for name in names:
            version = compute_derived_version(name, tables.derived, altered)
            query = f"SELECT * FROM `{name}`"
            try:
                shape = infer_shape(query, tables)
            except Unsupported as error:
                _LOG.error(
                    "derived stream cannot be archived",
                    action="derived_refused",
                    stream=name,
                    error=str(error),
                )
                continue
            archived[name, version] = DerivedStreamVersion(name, version, query, tables, shape)
    return list(archived.values())


def next_stream_task(
    stream: DerivedStreamVersion,
    chunks: Collection[Chunk],
    watermarks: Mapping[str, Micros | None],
    archived_chunks: Collection[int],
) -> DerivedStreamTask | None:
    """The newest closed chunk that is present or recent, complete, and not archived yet."""
    complete_until = stream.shape.horizon(watermarks)
    if complete_until is None:
        return None
    for chunk in sorted(chunks, key=lambda chunk: -chunk.id):
        if chunk.state not in ("present", "recent") or chunk.id in archived_chunks:
            continue
        if chunk.to_ts is not None and chunk.to_ts <= complete_until:
            return DerivedStreamTask(stream, chunk.id, chunk.time_range)
    return None


class DerivedStreamBuilder:
    """Plans and executes tasks, with one connection for each as in `moirae.history.builder`."""

    def __init__(
        self,
        planning_connection: sql.Connection,
        execution_connection: sql.Connection,
        root: StorageRoot,
        reader: Reader,
        relations: RelationVersions,
        attempts: Attempts | None = None,
        history: float = 0.0,
    ) -> None:
        """`history`: seconds that superseded versions of the tables stay readable."""
        self._planning = DerivedChunkGateway(planning_connection)
        self._execution = DerivedChunkGateway(execution_connection)
        self._root = root
        self._reader = reader
        self._relations = relations
        self._attempts = attempts if attempts is not None else Attempts()
        self._history = history
        # Of tables in object storage, to which Spark has no access.
        self._vacuum = Vacuum(_DELETION_GRACE, history)
        # Of local tables, by their folder.
        self._vacuum_timers: dict[Path, Timer] = {}

    def next_task(
        self,
        streams: Collection[DerivedStreamVersion],
        chunks: Collection[Chunk],
        watermarks: Mapping[str, Micros | None],
    ) -> DerivedStreamTask | None:
        """The next chunk to archive."""
        for stream in streams:
            finished: set[int] = set()
            for row in self._planning.list_of_version(stream.name, stream.version):
                if row.is_archived or row.tries >= MAX_ATTEMPTS:
                    finished.add(row.chunk)
            task = next_stream_task(stream, chunks, watermarks, finished)
            if task is not None:
                return task
        return None

    def remove_unneeded(self, streams: Collection[DerivedStreamVersion]) -> None:
        """Remove archived streams that no rule needs from the catalog; their files remain."""
        needed = {(stream.name, stream.version) for stream in streams}
        with _log_failed_cleanup():
            for row in self._planning.list_versions():
                if (row.stream, row.version) in needed:
                    continue
                # Touched first: after a crash both are repeated, with a new grace period.
                as_storage(
                    derived_tables.version_root(self._root, row.version) / "streams" / row.stream
                ).touch()
                self._planning.delete_version(row.stream, row.version)
                _LOG.info("derived stream removed", action="derived_removed", stream=row.stream)

    def delete_unneeded_files(self, streams: Collection[DerivedStreamVersion], now: float) -> None:
        """Delete the files of streams that left the catalog, after a grace period.

        `now`: wall-clock time in seconds, as modification times of files.
        """
        needed = {stream.version for stream in streams}
        needed.update(row.version for row in self._planning.list_versions())
        with _log_failed_cleanup():
            for version, used_at in (
                as_storage(derived_tables.derived_root(self._root)).folder_use_times().items()
            ):
                if version not in needed and now - used_at > _DELETION_GRACE:
                    as_storage(derived_tables.version_root(self._root, version)).remove_all()

    def vacuum(self, streams: Collection[DerivedStreamVersion], now: float) -> None:
        """Remove expired chunks, write checkpoints. `now`: monotonic time.

        Replaced files are deleted in object storage; on local disk by `vacuum_local_table`.
        """
        retained = self._planning.list_retained_chunks(_DELETION_GRACE)
        self._planning.delete_except(retained)
        tables: list[StreamTable] = []
        try:
            for stream in streams:
                if StreamTable.exists(
                    derived_tables.version_root(self._root, stream.version), stream.name
                ):
                    tables.append(
                        derived_tables.open_table(self._root, stream.name, stream.version)
                    )
            for table in tables:
                if self._history:
                    table.set_history(self._history)
                for chunk in table.files_by_chunk().keys() - set(retained):
                    table.delete_chunk(chunk)
            if _is_local(self._root):
                for table in tables:
                    table.checkpoint()
            else:
                self._vacuum.run(tables, now)
        except (ArchiverError, DeltaError, OSError) as error:
            _LOG.warning("vacuum failed", action="vacuum_failed", error=str(error))

    def vacuum_local_table(self, table: StreamTable, spark: SparkSession) -> None:
        """Delete replaced files of a local table after the history. At most once an hour."""
        timer = self._vacuum_timers.setdefault(table.data_folder, Timer(_VACUUM_INTERVAL))
        if not _is_local(self._root) or not timer.is_due():
            return
        timer.restart()
        try:
            vacuum_table(spark, table.data_folder, max(self._history, _DELETION_GRACE))
        except (PySparkException, Py4JJavaError) as error:
            _LOG.warning("vacuum failed", action="vacuum_failed", error=str(error))

    def execute(self, task: DerivedStreamTask, spark: SparkSession) -> None:
        """Archive a chunk of a stream unless that is done. Errors are stored with the chunk."""
        chunk_key = task.stream.name, task.stream.version, task.chunk
        for row in self._execution.list_of_version(task.stream.name, task.stream.version):
            if row.chunk == task.chunk and row.is_archived:
                return
        is_started = self._attempts.begin(
            partial(self._execution.begin_attempt, *chunk_key),
            partial(self._planning.undo_attempt, *chunk_key),
        )
        if is_started:
            try:
                self._attempt(task, spark)
            finally:
                self._attempts.finish()

    def _attempt(self, task: DerivedStreamTask, spark: SparkSession) -> None:
        started_at = time.monotonic()
        stream = task.stream
        try:
            rows = self._select_rows(task, spark)
            schema = to_arrow_schema(rows.schema, timezone="UTC")
            table = derived_tables.open_or_create_table(
                self._root, stream.name, stream.version, schema
            )
            files = _ChunkWriter(SparkJobs(spark.sparkContext), table.files, task.chunk, rows)
            table.replace_chunk(files.write, task.chunk)
            self.vacuum_local_table(table, spark)
        except CommitConflict:
            return  # another process archived the chunk, or will
        except (
            PySparkException,
            Py4JJavaError,
            pa.ArrowException,
            DeltaError,
            LookupError,
            ValueError,
        ) as error:
            if self._attempts.is_shut_down:
                return
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._execution.set_error(
                stream.name, stream.version, task.chunk, error=message[:_MAX_ERROR_LENGTH]
            )
            _LOG.error(
                "derived stream not archived",
                action="derived_failed",
                stream=stream.name,
                error=message,
            )
            return
        self._execution.complete(
            stream.name,
            stream.version,
            task.chunk,
            row_count=files.row_count,
            seconds=time.monotonic() - started_at,
        )

    def _select_rows(self, task: DerivedStreamTask, spark: SparkSession) -> DataFrame:
        """The rows of a chunk, which executors compute from archived files."""
        stream, stream_rows = task.stream, ArchivedStreamRows(spark, self._reader)
        self._reader.refresh()
        input_range = task.range.shift(start=-stream.shape.reach, end=max(stream.shape.lag, 0) + 1)
        views: dict[str, str] = {}
        for name in stream.shape.streams:
            views[name] = input_view(name)
            stream_rows.read_range(name, input_range).createOrReplaceTempView(views[name])
        for name in stream.shape.relations:
            views[name] = relation_view(name)
            versions = spark.createDataFrame(self._relations.read(name))
            versions.createOrReplaceTempView(views[name])
        query = bind_query(stream.query, stream.tables, PhysicalTables(views))
        rows = spark.sql(query.sql(dialect="spark"))
        return filter_time_range(rows, derived_tables.TIME_COLUMN, task.range)


class _ChunkWriter:
    """Writes the rows of a chunk in the tasks that compute them: none reach this process."""

    def __init__(self, jobs: Jobs, files: TableFiles, chunk: int, rows: DataFrame) -> None:
        self._jobs = jobs
        self._write_part = partial(derived_tables.write_chunk, files, chunk)
        self._rows = rows
        self.row_count = 0

    def write(self) -> list[DataFile]:
        """The files that were written. Raises the error of a task."""
        parts = self._jobs.keep_frame(self._write_part, self._rows)
        try:
            files = list(chain.from_iterable(parts.map(_list_files)))
        finally:
            parts.release()
        self.row_count = sum(file.rows for file in files)
        return files


def _list_files(_task: int, files: Iterable[DataFile]) -> list[DataFile]:
    return list(files)


def _is_local(root: StorageRoot) -> bool:
    return isinstance(as_storage(root), LocalStorage)


@contextmanager
def _log_failed_cleanup() -> Iterator[None]:
    """Log an error of the storage; the clean-up is repeated."""
    try:
        yield
    except (ArchiverError, OSError) as error:
        _LOG.warning(
            "clean-up of derived streams failed", action="derived_cleanup_failed", error=str(error)
        )
