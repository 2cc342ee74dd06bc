"""A workspace with a history in chunks, and recall managers in this process. No Spark."""

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from psycopg import Connection
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from archiver.chunks.chunk import CutPolicy
from archiver.delta.schema import StreamSchema
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.read.appended_rows import AppendedRows
from archiver.read.reader import Reader, SnapshotReader
from archiver.storage.base import StorageRoot
from archiver.times import duration_to_micros, to_micros
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.runtime import database, storage
from recall.corpora import Corpora
from recall.corpus_parts import PartHolder
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.ledger.tasks import Ledger, SchedulingPolicy
from recall.requests import Order, RecallEvent, RecallRequest, SqlQuestion, task_id
from recall.scheduling.stride import StrideScheduler
from recall.worker.key_counts import KeyCounts
from recall.worker.live_rows import LiveEngines
from recall.worker.manager import ManagerConfig, RecallManager
from recall.worker.preparation import BackgroundWork
from tests.workspaces import write_workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
CHUNKS = 20
"""Of the history that most modules ask about."""
HOSTS = 4
# A host that was there in the oldest chunk only.
GONE = f"h{HOSTS}"
_COLUMNS = {"ts": "timestamp", "host": "string", "v": "bigint"}
SCHEMA = StreamSchema("past", _COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(days=1))
_WORKSPACE = """
home: .moirae
archive: %s
streams:
  past: {columns: {ts: timestamp, host: string, v: bigint}, time: ts, source: {files: landing/*.jsonl}}
rules: []
"""
COUNT = "SELECT count(*) AS n, sum(h.v) AS total FROM past h WHERE h.host = event.host"


@dataclass
class History:
    """`rows`: (second, host, v) of each archived row, `step` seconds apart. One connection for the
    tests, one for each manager.
    """

    settings: Settings
    connection: Connection[Any]
    rows: list[tuple[int, str, int]]
    key_counts: KeyCounts
    archive: ArchiveWriter
    step: int = 1

    def archive_rows(self, rows: Sequence[tuple[int, str, int]]) -> None:
        """Archive further rows as one source unit."""
        lines = _to_lines(rows)
        unit = SourceUnit("past", f"more{len(self.rows)}", JSONL, lambda: iter(lines))
        self.archive.ingest([unit], to_micros(datetime.now(UTC)))
        self.rows.extend(rows)

    def add_task(
        self,
        number: int,
        sql: str = COUNT,
        *,
        rule: str = "g/r",
        host: int = 0,
        order: Order = "newest",
        every: float = 0.0,
        **options: Any,
    ) -> UUID:
        """A task about event `number`, at the end of history; returns its ID."""
        question = SqlQuestion(
            options.pop("range", None),
            every,
            order,
            sql,
            {"past": "ts"},
            (),
            {},
            {"host": "string"},
            {},
            {"n": "bigint"},
            **options,
        )
        end = to_micros(START + timedelta(seconds=len(self.rows) * self.step))
        event = RecallEvent(UUID(int=number), end, {}, {"host": f"h{host}"})
        Ledger(self.connection).add([RecallRequest(rule, "1", "norm", question, event, 0)])
        return task_id(rule, "1", "norm", event.eid)

    @contextmanager
    def manager(
        self,
        workers: int = 1,
        stride: StrideScheduler[UUID] | None = None,
        policy: SchedulingPolicy = SchedulingPolicy(),
        background: BackgroundWork | None = None,
        session: Callable[[], SparkSession] | None = None,
        relations: Callable[[str], pa.Table] | None = None,
        corpus_memory: tuple[str, int] | None = None,
        **config: Any,
    ) -> Iterator[RecallManager]:
        """A manager on a connection of its own; without a `session` no question may need Spark, or
        else relations. `corpus_memory`: the name under which it holds parts of corpora, and bytes.
        `config`: further settings.
        """
        connection = database.connect_database(self.settings, "recall")
        root = storage.open_storage(self.settings)
        cache = PartialCache()
        spark_inputs = session or no_spark, relations or no_relations
        engines = [_engines(root, cache, *spark_inputs) for _ in range(workers)]
        lease = Ledger.acquire_lease(connection)
        parts: PartHolder | None = None
        if corpus_memory is not None:
            name, max_bytes = corpus_memory
            parts = PartHolder(connection, lease=lease, max_bytes=max_bytes, name=name)
        manager = RecallManager(
            connection,
            Ledger(connection, lease, policy),
            Corpora(connection, root, parts),
            key_counts=self.key_counts,
            config=ManagerConfig(
                engines=engines,
                stride=StrideScheduler() if stride is None else stride,
                background=background,
                live_engines=_live_engines(root),
                parts=parts,
                **{"query_timeout": 600.0} | config,
            ),
        )
        try:
            yield manager
        finally:
            manager.shut_down()
            connection.close()

    def connect(self) -> Connection[Any]:
        """A connection of another process."""
        return database.connect_database(self.settings, "test")

    def task(self, task: UUID) -> dict[str, Any]:
        """A row of the ledger."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute("SELECT * FROM tasks WHERE id = %s", (task,)).fetchone()
        assert row is not None
        return row

    def revisions(self, task: UUID) -> list[dict[str, Any]]:
        """Its answers, oldest first."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(
                "SELECT * FROM revisions WHERE task = %s ORDER BY number", (task,)
            ).fetchall()

    def expected_answer(self, host: int = 0) -> dict[str, int]:
        """The answer to `COUNT` over all history."""
        values = [v for _, name, v in self.rows if name == f"h{host}"]
        return {"n": len(values), "total": sum(values)}


def without_tasks(past: History) -> History:
    """The history, after all its tasks are deleted."""
    past.connection.execute("TRUNCATE tasks, unsettled_reads, revisions, commands")
    return past


@contextmanager
def history(chunks: int, rows: int, archive_url: str = "null", step: int = 1) -> Iterator[History]:
    """`rows` in each of some chunks, `step` seconds apart; `archive_url`: where the archive is."""
    root = Path(tempfile.mkdtemp(prefix="moirae-test-"))
    root.chmod(0o755)
    write_workspace(root, _WORKSPACE % archive_url)
    settings = load_settings_from_environment(root / "moirae.yaml")
    connection = database.connect_database(settings, "test")
    policy = CutPolicy(rows, duration_to_micros(timedelta(days=365)))
    archive = ArchiveWriter(
        storage.open_storage(settings), [SCHEMA], policy, connection, lambda: None
    )
    rng = random.Random(1)
    archived_rows = [
        (number * step, f"h{rng.randrange(HOSTS)}", rng.randrange(100))
        for number in range(chunks * rows)
    ]
    archived_rows[:rows:2] = [(second, GONE, v) for second, _, v in archived_rows[:rows:2]]
    lines = _to_lines(archived_rows)
    for start in range(0, len(lines), rows):
        part = lines[start : start + rows]
        unit = SourceUnit("past", f"u{start}", JSONL, lambda part=part: iter(part))
        archive.ingest([unit], to_micros(datetime.now(UTC)))
    try:
        key_counts = KeyCounts(Reader(storage.open_storage(settings), [SCHEMA]))
        yield History(settings, connection, archived_rows, key_counts, archive, step)
    finally:
        connection.close()
        shutil.rmtree(root, ignore_errors=True)


def _to_lines(rows: Sequence[tuple[int, str, int]]) -> list[bytes]:
    return [
        orjson.dumps({"ts": (START + timedelta(seconds=second)).isoformat(), "host": host, "v": v})
        for second, host, v in rows
    ]


def run_until(manager: RecallManager, until: Callable[[], bool], seconds: float = 60.0) -> None:
    """Run rounds of the manager until a condition holds."""
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, f"not reached within {seconds:.0f} s"
        manager.run_once()
        manager.wait_for_query()


def no_spark() -> SparkSession:
    """For questions that are served in the process."""
    raise AssertionError("this needs Spark")


def no_relations(name: str) -> pa.Table:
    """For questions that name none."""
    raise AssertionError(name)


def _live_engines(root: StorageRoot) -> LiveEngines:
    rows = AppendedRows(root, [SCHEMA])
    reader = SnapshotReader(rows)
    spark = SparkEngine(no_spark, reader, no_relations)
    return LiveEngines(EngineRouter(spark, LocalEngine(reader), PartialCache(0)), rows)


def _engines(
    root: StorageRoot,
    cache: PartialCache,
    session: Callable[[], SparkSession],
    relations: Callable[[str], pa.Table],
) -> EngineRouter:
    reader = Reader(root, [SCHEMA])
    return EngineRouter(SparkEngine(session, reader, relations), LocalEngine(reader), cache)
