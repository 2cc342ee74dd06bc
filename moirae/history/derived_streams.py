"""Derived streams archived: those that say so, and those that recalls of deployed rules read; the others removed.

Closed chunks that are not old get them by themselves, newest first, each computed whole once the watermark has passed
all that it is made of.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake.exceptions import DeltaError
from psycopg import Connection
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sql
from archiver.chunks import Chunk
from archiver.delta import (
    TIME_COLUMN,
    StreamTable,
    Vacuum,
    derived_root,
    open_or_create_table,
    open_table,
    replace_chunk,
    version_root,
)
from archiver.errors import ArchiverError, CommitConflict
from archiver.read import Reader
from archiver.storage import StorageRoot, as_storage
from archiver.times import from_micros
from moirae.evaluation import ArchivedStreamRows, horizon
from moirae.history.attempts import Attempts
from moirae.history.finder import RelationVersions
from moirae.history.plan import MAX_ATTEMPTS
from moirae.rules import Definition, SqlRecall, build_rule_tables
from recall.engines import compute_derived_version
from recall.query import (
    PhysicalTables,
    Shape,
    Tables,
    Unsupported,
    bind_query,
    infer_shape,
    tables_used,
)

_LOG = structlog.get_logger()
_QUERIES = sql.load("streams")

# Seconds that files stay after nobody can begin to read them any more: longer than a history query takes.
_DELETION_GRACE = 3600.0
# Seconds between two looks for such files.
_CLEANUP_INTERVAL = 60.0


@dataclass(frozen=True)
class DerivedStreamVersion:
    """A version of a derived stream that is archived: its query, over what it may name."""

    name: str
    version: str
    query: str
    tables: Tables
    shape: Shape


@dataclass(frozen=True)
class DerivedStreamTask:
    """The rows of a derived stream in [low, high) of a chunk; microseconds, low None: from the first."""

    stream: DerivedStreamVersion
    chunk: int
    low: int | None
    high: int


def select_archived_streams(
    definitions: Collection[Definition], streams: Mapping[str, str], relations: frozenset[str]
) -> list[DerivedStreamVersion]:
    """The derived streams to archive: `archive: true`, or named by a recall of a rule that is deployed. Pure."""
    found: dict[tuple[str, str], DerivedStreamVersion] = {}
    for definition in definitions:
        rule = definition.rule
        tables = build_rule_tables(rule, streams, relations)
        recalls = [one.sql for one in rule.spec.recall.values() if isinstance(one, SqlRecall)]
        asked = frozenset().union(*(tables_used(text, tables.derived.keys()) for text in recalls))
        for name in asked | {one.stream for one in rule.derived if one.archive}:
            version, query = (
                compute_derived_version(name, tables.derived),
                f"SELECT * FROM `{name}`",
            )
            try:
                found[name, version] = DerivedStreamVersion(
                    name, version, query, tables, infer_shape(query, tables)
                )
            except Unsupported as error:
                _LOG.error("not archived", action="derived_refused", stream=name, error=str(error))
    return list(found.values())


def next_stream_task(
    stream: DerivedStreamVersion,
    chunks: Collection[Chunk],
    watermarks: Mapping[str, int | None],
    archived_chunks: Collection[int],
) -> DerivedStreamTask | None:
    """The newest chunk that is closed, not old, complete, and not `known` to be archived. Pure."""
    to = horizon(stream.shape, watermarks)
    for chunk in sorted(chunks, key=lambda one: -one.id):
        closed = chunk.state in ("present", "recent") and chunk.to_ts is not None
        if (
            closed
            and chunk.id not in archived_chunks
            and to is not None
            and chunk.to_ts is not None
            and chunk.to_ts <= to
        ):
            return DerivedStreamTask(stream, chunk.id, chunk.from_ts, chunk.to_ts)
    return None


class DerivedStreamBuilder:
    """`looking` and `working`: connections, as in `moirae.history.builder`."""

    def __init__(
        self,
        planning_connection: Connection[Any],
        execution_connection: Connection[Any],
        root: StorageRoot,
        reader: Reader,
        relations: RelationVersions,
        attempts: Attempts | None = None,
    ) -> None:
        self._planning = planning_connection
        self._execution = execution_connection
        self._root = root
        self._reader = reader
        self._relations = relations
        self._attempts = attempts if attempts is not None else Attempts()
        self._vacuum, self._last_vacuum, self._last_cleanup = (
            Vacuum(_DELETION_GRACE),
            -_CLEANUP_INTERVAL,
            -_CLEANUP_INTERVAL,
        )

    def next_task(
        self,
        streams: Collection[DerivedStreamVersion],
        chunks: Collection[Chunk],
        watermarks: Mapping[str, int | None],
    ) -> DerivedStreamTask | None:
        """What is to be archived next."""
        for stream in streams:
            rows = self._planning.execute(
                _QUERIES["known"], {"stream": stream.name, "version": stream.version}
            )
            known = {chunk for chunk, done, tries in rows if done or tries >= MAX_ATTEMPTS}
            work = next_stream_task(stream, chunks, watermarks, known)
            if work is not None:
                return work
        return None

    def remove_unneeded(self, streams: Collection[DerivedStreamVersion], now: float) -> None:
        """What is archived and needed no more goes: first nobody begins to read it, an hour later its files. `now`: by
        the clock, as files have it."""
        try:
            self._remove_unneeded(streams, now)
        except (ArchiverError, OSError) as error:
            _LOG.warning("not forgotten", action="forget_failed", error=str(error))

    def _remove_unneeded(self, streams: Collection[DerivedStreamVersion], now: float) -> None:
        wanted = {(stream.name, stream.version) for stream in streams}
        for name, version in self._planning.execute(_QUERIES["versions"]).fetchall():
            if (name, version) not in wanted:
                # First: who dies in between does both again, and the hour begins again.
                as_storage(version_root(self._root, version) / "streams" / name).touch()
                self._planning.execute(_QUERIES["forget"], {"stream": name, "version": version})
                _LOG.info("stream not archived any more", action="derived_forgotten", stream=name)
        if time.monotonic() - self._last_cleanup < _CLEANUP_INTERVAL:
            return
        self._last_cleanup = time.monotonic()
        known = {version for _, version in wanted}
        for version, used in as_storage(derived_root(self._root)).folder_use_times().items():
            if version not in known and now - used > _DELETION_GRACE:
                as_storage(version_root(self._root, version)).remove_all()

    def vacuum(self, streams: Collection[DerivedStreamVersion], now: float) -> None:
        """What is archived of expired chunks goes after a while, and files that were replaced; logs are gathered.
        `now`: seconds of a clock that goes on."""
        if now - self._last_vacuum < _CLEANUP_INTERVAL:
            return
        self._last_vacuum = now
        kept = [
            chunk
            for (chunk,) in self._planning.execute(_QUERIES["kept"], {"grace": _DELETION_GRACE})
        ]
        self._planning.execute(_QUERIES["forget_chunks"], {"kept": kept})
        try:
            there = [
                one
                for one in streams
                if StreamTable.exists(version_root(self._root, one.version), one.name)
            ]
            tables = [open_table(self._root, one.name, one.version) for one in there]
            for table in tables:
                for chunk in table.files_by_chunk().keys() - set(kept):
                    table.delete_chunk(chunk)
            self._vacuum.run(tables, now)
        except (ArchiverError, DeltaError, OSError, CommitConflict) as error:
            _LOG.warning("not swept", action="sweep_failed", error=str(error))

    def execute(self, task: DerivedStreamTask, spark: SparkSession) -> None:
        """Archive a chunk of a stream, if that is still to be done. What cannot be is said beside it."""
        values = {"stream": task.stream.name, "version": task.stream.version, "chunk": task.chunk}
        if any(
            chunk == task.chunk and done
            for chunk, done, _ in self._execution.execute(_QUERIES["known"], values)
        ):
            return
        begun = self._attempts.begin(
            lambda: self._execution.execute(_QUERIES["begin"], values),
            lambda: self._planning.execute(_QUERIES["untried"], values),
        )
        if begun:
            try:
                self._attempt(task, spark, values)
            finally:
                self._attempts.finish()

    def _attempt(
        self, work: DerivedStreamTask, spark: SparkSession, values: Mapping[str, Any]
    ) -> None:
        began = time.monotonic()
        try:
            rows = self._compute_rows(work, spark)
            replace_chunk(
                open_or_create_table(
                    self._root, work.stream.name, work.stream.version, rows.schema
                ),
                rows,
                work.chunk,
            )
        except CommitConflict:
            return  # another process did it, or does it again
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
            self._execution.execute(
                _QUERIES["failed"], {**values, "error": sql.replace_nul(message[:2000])}
            )
            _LOG.error(
                "stream not archived",
                action="derived_failed",
                stream=work.stream.name,
                error=message,
            )
            return
        end = {"rows": len(rows), "seconds": time.monotonic() - began}
        self._execution.execute(_QUERIES["done"], {**values, **end})

    def _compute_rows(self, work: DerivedStreamTask, spark: SparkSession) -> pa.Table:
        stream, rows = work.stream, ArchivedStreamRows(spark, self._reader)
        self._reader.refresh()
        low = None if work.low is None else work.low - stream.shape.reach
        for name in stream.shape.streams:
            rows.read_range(
                name, low, work.high + max(stream.shape.lag, 0) + 1
            ).createOrReplaceTempView(f"in_{name}")
        for name in stream.shape.relations:
            spark.createDataFrame(self._relations.read(name)).createOrReplaceTempView(
                f"relation_{name}"
            )
        names = {name: f"in_{name}" for name in stream.shape.streams}
        names |= {name: f"relation_{name}" for name in stream.shape.relations}
        query = bind_query(stream.query, stream.tables, PhysicalTables(names))
        found: pa.Table = spark.sql(query.sql(dialect="spark")).toArrow()
        kind = found.schema.field(TIME_COLUMN).type
        inside = pc.less(found[TIME_COLUMN], pa.scalar(from_micros(work.high), kind))
        if work.low is not None:
            inside = pc.and_(
                inside, pc.greater_equal(found[TIME_COLUMN], pa.scalar(from_micros(work.low), kind))
            )
        return found.filter(inside)
