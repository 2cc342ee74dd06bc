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
from archiver.chunk import Chunk
from archiver.derived import TIME, all_of, made, opened, root_of, write
from archiver.errors import ArchiverError
from archiver.log import Superseded
from archiver.place import Root, at
from archiver.reader import Reader
from archiver.sweep import Sweeper
from archiver.table import StreamTable
from archiver.times import from_micros
from moirae.judging.plan import horizon
from moirae.judging.rows import OldRows
from moirae.rules.definition import Definition, tables_of
from moirae.rules.questions import SqlRecall
from moirae.views.find import Related
from moirae.views.plan import TRIES
from moirae.views.trying import Trying
from recall.derived import version_of
from recall.query.bind import Physical, bind
from recall.query.lift import tables_used
from recall.query.shape import Shape, Tables, Unsupported, shape

_LOG = structlog.get_logger()
_QUERIES = sql.load("streams")

# Seconds that files stay after nobody can begin to read them any more: longer than a history query takes.
_GRACE = 3600.0
# Seconds between two looks for such files.
_SWEEP = 60.0


@dataclass(frozen=True)
class DerivedStream:
    """A version of a derived stream that is archived: its query, over what it may name."""

    name: str
    version: str
    query: str
    tables: Tables
    shape: Shape


@dataclass(frozen=True)
class StreamWork:
    """The rows of a derived stream in [low, high) of a chunk; microseconds, low None: from the first."""

    stream: DerivedStream
    chunk: int
    low: int | None
    high: int


def needed(
    definitions: Collection[Definition], streams: Mapping[str, str], relations: frozenset[str]
) -> list[DerivedStream]:
    """The derived streams to archive: `archive: true`, or named by a recall of a rule that is deployed. Pure."""
    found: dict[tuple[str, str], DerivedStream] = {}
    for definition in definitions:
        rule = definition.rule
        tables = tables_of(rule, streams, relations)
        recalls = [one.sql for one in rule.spec.recall.values() if isinstance(one, SqlRecall)]
        asked = frozenset().union(*(tables_used(text, tables.derived.keys()) for text in recalls))
        for name in asked | {one.stream for one in rule.derived if one.archive}:
            version, query = version_of(name, tables.derived), f"SELECT * FROM `{name}`"
            try:
                found[name, version] = DerivedStream(name, version, query, tables, shape(query, tables))
            except Unsupported as error:
                _LOG.error("not archived", action="derived_refused", stream=name, error=str(error))
    return list(found.values())


def to_make(
    stream: DerivedStream, chunks: Collection[Chunk], marks: Mapping[str, int | None], known: Collection[int]
) -> StreamWork | None:
    """The newest chunk that is closed, not old, complete, and not `known` to be archived. Pure."""
    to = horizon(stream.shape, marks)
    for chunk in sorted(chunks, key=lambda one: -one.id):
        closed = chunk.state in ("present", "recent") and chunk.to_ts is not None
        if closed and chunk.id not in known and to is not None and chunk.to_ts is not None and chunk.to_ts <= to:
            return StreamWork(stream, chunk.id, chunk.from_ts, chunk.to_ts)
    return None


class DerivedStreams:
    """`looking` and `working`: connections, as in `moirae.views.views`."""

    def __init__(
        self,
        looking: Connection[Any],
        working: Connection[Any],
        root: Root,
        reader: Reader,
        relations: Related,
        trying: Trying | None = None,
    ) -> None:
        self._looking = looking
        self._working = working
        self._root = root
        self._reader = reader
        self._relations = relations
        self._trying = trying if trying is not None else Trying()
        self._sweeper, self._swept, self._tidied = Sweeper(_GRACE), -_SWEEP, -_SWEEP

    def next(
        self, streams: Collection[DerivedStream], chunks: Collection[Chunk], marks: Mapping[str, int | None]
    ) -> StreamWork | None:
        """What is to be archived next."""
        for stream in streams:
            rows = self._looking.execute(_QUERIES["known"], {"stream": stream.name, "version": stream.version})
            known = {chunk for chunk, done, tries in rows if done or tries >= TRIES}
            work = to_make(stream, chunks, marks, known)
            if work is not None:
                return work
        return None

    def forget(self, streams: Collection[DerivedStream], now: float) -> None:
        """What is archived and needed no more goes: first nobody begins to read it, an hour later its files. `now`: by
        the clock, as files have it."""
        try:
            self._forget(streams, now)
        except (ArchiverError, OSError) as error:
            _LOG.warning("not forgotten", action="forget_failed", error=str(error))

    def _forget(self, streams: Collection[DerivedStream], now: float) -> None:
        wanted = {(stream.name, stream.version) for stream in streams}
        for name, version in self._looking.execute(_QUERIES["versions"]).fetchall():
            if (name, version) not in wanted:
                # First: who dies in between does both again, and the hour begins again.
                at(root_of(self._root, version) / "streams" / name).use()
                self._looking.execute(_QUERIES["forget"], {"stream": name, "version": version})
                _LOG.info("stream not archived any more", action="derived_forgotten", stream=name)
        if time.monotonic() - self._tidied < _SWEEP:
            return
        self._tidied = time.monotonic()
        known = {version for _, version in wanted}
        for version, used in at(all_of(self._root)).folders().items():
            if version not in known and now - used > _GRACE:
                at(root_of(self._root, version)).clear()

    def sweep(self, streams: Collection[DerivedStream], now: float) -> None:
        """What is archived of expired chunks goes after a while, and files that were replaced; logs are gathered.
        `now`: seconds of a clock that goes on."""
        if now - self._swept < _SWEEP:
            return
        self._swept = now
        kept = [chunk for (chunk,) in self._looking.execute(_QUERIES["kept"], {"grace": _GRACE})]
        self._looking.execute(_QUERIES["forget_chunks"], {"kept": kept})
        try:
            there = [one for one in streams if StreamTable.exists(root_of(self._root, one.version), one.name)]
            tables = [opened(self._root, one.name, one.version) for one in there]
            for table in tables:
                for chunk in table.chunks().keys() - set(kept):
                    table.forget(chunk)
            self._sweeper.sweep(tables, now)
        except (ArchiverError, DeltaError, OSError, Superseded) as error:
            _LOG.warning("not swept", action="sweep_failed", error=str(error))

    def make(self, work: StreamWork, spark: SparkSession) -> None:
        """Archive a chunk of a stream, if that is still to be done. What cannot be is said beside it."""
        values = {"stream": work.stream.name, "version": work.stream.version, "chunk": work.chunk}
        if any(chunk == work.chunk and done for chunk, done, _ in self._working.execute(_QUERIES["known"], values)):
            return
        begun = self._trying.begin(
            lambda: self._working.execute(_QUERIES["begin"], values),
            lambda: self._looking.execute(_QUERIES["untried"], values),
        )
        if begun:
            try:
                self._try(work, spark, values)
            finally:
                self._trying.done()

    def _try(self, work: StreamWork, spark: SparkSession, values: Mapping[str, Any]) -> None:
        began = time.monotonic()
        try:
            rows = self._rows(work, spark)
            write(made(self._root, work.stream.name, work.stream.version, rows.schema), rows, work.chunk)
        except Superseded:
            return  # another process did it, or does it again
        except (PySparkException, Py4JJavaError, pa.ArrowException, DeltaError, LookupError, ValueError) as error:
            if self._trying.ended:
                return
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._working.execute(_QUERIES["failed"], {**values, "error": sql.storable(message[:2000])})
            _LOG.error("stream not archived", action="derived_failed", stream=work.stream.name, error=message)
            return
        end = {"rows": len(rows), "seconds": time.monotonic() - began}
        self._working.execute(_QUERIES["done"], {**values, **end})

    def _rows(self, work: StreamWork, spark: SparkSession) -> pa.Table:
        stream, rows = work.stream, OldRows(spark, self._reader)
        self._reader.refresh()
        low = None if work.low is None else work.low - stream.shape.reach
        for name in stream.shape.streams:
            rows.archived(name, low, work.high + max(stream.shape.lag, 0) + 1).createOrReplaceTempView(f"in_{name}")
        for name in stream.shape.relations:
            spark.createDataFrame(self._relations.table(name)).createOrReplaceTempView(f"relation_{name}")
        names = {name: f"in_{name}" for name in stream.shape.streams}
        names |= {name: f"relation_{name}" for name in stream.shape.relations}
        query = bind(stream.query, stream.tables, Physical(names))
        found: pa.Table = spark.sql(query.sql(dialect="spark")).toArrow()
        kind = found.schema.field(TIME).type
        inside = pc.less(found[TIME], pa.scalar(from_micros(work.high), kind))
        if work.low is not None:
            inside = pc.and_(inside, pc.greater_equal(found[TIME], pa.scalar(from_micros(work.low), kind)))
        return found.filter(inside)
