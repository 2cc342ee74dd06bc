"""A workspace in this process: an archive that grows, recalls, and a runner of stages. No Spark."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from psycopg import Connection

from archiver.chunks.chunk import CutPolicy
from archiver.delta.schema import StreamSchema
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.read.reader import Reader, SnapshotReader
from archiver.times import duration_to_micros, to_micros
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.runtime import database, storage
from recall.corpora import Corpora
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.routing.choice import EngineChoice
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.event_plans import EventPlan, Stage
from recall.ledger.tasks import Ledger
from recall.query.row_keys import row_key_columns
from recall.requests import RecallEvent, RecallRequest, SqlQuestion, task_id
from recall.revisions.changes import RowChange, replay
from recall.stages.evaluation import StageEvaluator
from recall.stages.runner import StageConfig, StageRunner
from recall.worker.key_counts import KeyCounts
from recall.worker.manager import ManagerConfig, RecallManager
from tests.integration.history import no_relations, no_spark
from tests.workspaces import workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {"ts": "timestamp", "host": "string", "v": "double"}
SCHEMA = StreamSchema("load", COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(days=1))
RULE = "g/r"
VERSION = "1"
ATTRIBUTES = {"host": "string", "limit": "double"}
NORM = "SELECT h.host AS host, avg(h.v) AS mean, count(*) AS n FROM load h GROUP BY h.host"
NORM_COLUMNS = {"host": "string", "mean": "double", "n": "bigint"}
_WORKSPACE = """
home: .moirae
streams:
  load:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    lateness: 0s
    source: {files: l/*.jsonl}
rules: []
"""


Row = tuple[float, str, float]  # seconds after START, host, value


def micros(seconds: float) -> int:
    """An event time in microseconds."""
    return to_micros(START + timedelta(seconds=seconds))


def stage(
    name: str, sql: str, inputs: dict[str, dict[str, str]], columns: dict[str, str], **options: Any
) -> Stage:
    """A stage; `options` `within` and `delay` in seconds, and `live` for one that reads `load`."""
    is_live = options.pop("live", False)
    return Stage(
        name=name,
        sql=sql,
        inputs=inputs,
        columns=columns,
        row_key=row_key_columns(sql),
        streams={"load": "ts"} if is_live else {},
        within=int(options.pop("within", 0) * 1_000_000),
        delay=int(options.pop("delay", 0) * 1_000_000),
        **options,
    )


class _FailingSpark(SparkEngine):
    """Spark without a JVM: it fails, as it does on files that neither engine can read."""

    def is_alive(self) -> bool:
        return True


@dataclass
class StageWorld:
    """`rows`: archived ones with whether they are late."""

    settings: Settings
    connection: Connection[Any]
    archive: ArchiveWriter
    rows: list[tuple[Row, bool]] = field(default_factory=list)
    units: int = 0
    newest: float | None = None

    def ingest(self, rows: Sequence[Row]) -> None:
        """Archive rows as one source unit."""
        lines = [
            orjson.dumps(
                {"ts": (START + timedelta(seconds=at)).isoformat(), "host": host, "v": value}
            )
            for at, host, value in rows
        ]
        self.units += 1
        unit = SourceUnit("load", f"u{self.units}", JSONL, lambda: iter(lines))
        self.archive.ingest([unit], to_micros(datetime.now(UTC)))
        for row in rows:
            self.rows.append((row, self.newest is not None and row[0] < self.newest))
        self.newest = max([row[0] for row in rows] + ([] if self.newest is None else [self.newest]))

    def damage_chunks(self, before: float, share: float, rng: random.Random) -> None:
        """Make some of the chunks that end before a second unreadable."""
        ended = self.connection.execute(
            "SELECT id FROM chunks WHERE to_ts <= %s ORDER BY id",
            (START + timedelta(seconds=before),),
        ).fetchall()
        for (chunk,) in ended:
            if rng.random() < share:
                for file in Path(self.settings.archive).rglob(f"chunk={chunk}/*.parquet"):
                    file.write_bytes(b"PAR1")

    def request(
        self,
        number: int,
        at: float,
        plan: EventPlan,
        *,
        limit: float = 0.0,
        sql: str = NORM,
        recall: str = "norm",
    ) -> UUID:
        """Request a recall about an event at some second; returns the ID of the event."""
        eid = UUID(int=number)
        event = RecallEvent(eid, micros(at), {"site": "x"}, {"host": "a", "limit": limit})
        question = SqlQuestion(
            None, 0.0, "newest", sql, {"load": "ts"}, (), {}, ATTRIBUTES, {}, NORM_COLUMNS
        )
        request = RecallRequest(RULE, VERSION, recall, question, event, 0, plan)
        with self.connection.transaction():
            Ledger(self.connection).add([request])
        return eid

    @contextmanager
    def manager(self) -> Iterator[RecallManager]:
        connection = database.connect_database(self.settings, "recall")
        root = storage.open_storage(self.settings)
        reader = Reader(root, [SCHEMA])
        engine = EngineRouter(
            _FailingSpark(no_spark, reader, no_relations), LocalEngine(reader), PartialCache()
        )
        manager = RecallManager(
            connection,
            Ledger(connection, Ledger.acquire_lease(connection)),
            Corpora(connection, root),
            key_counts=KeyCounts(Reader(root, [SCHEMA])),
            config=ManagerConfig(engines=[engine], query_timeout=60.0),
        )
        try:
            yield manager
        finally:
            manager.shut_down()
            connection.close()

    @contextmanager
    def runner(self, max_rows: int = 100_000) -> Iterator[StageRunner]:
        """A runner with a connection of its own. Leaving it is as if its process was killed."""
        connection = database.connect_database(self.settings, "stages")
        reader = SnapshotReader(Reader(storage.open_storage(self.settings), [SCHEMA]))
        evaluator = StageEvaluator(
            reader,
            relations=no_relations,
            session=no_spark,
            choice=EngineChoice("local"),
            max_rows=max_rows,
        )
        config = StageConfig(stream_columns={"load": COLUMNS}, lateness={"load": 0})
        try:
            yield StageRunner(connection, evaluator, config)
        finally:
            connection.close()

    def revisions(self, name: str, eid: UUID | None = None) -> list[tuple[Any, ...]]:
        """(seq, op, row_key, row) of a stream, in order."""
        return self.connection.execute(
            "SELECT r.seq, r.op, r.row_key, r.row FROM row_revisions r "
            "JOIN revision_streams s ON s.id = r.stream WHERE s.name = %s "
            "AND (%s::uuid IS NULL OR r.eid = %s) ORDER BY r.seq",
            (name, eid, eid),
        ).fetchall()

    def replayed(self, name: str, eid: UUID) -> list[dict[str, Any]]:
        """The rows of an event to which the revisions of a stream lead."""
        changes = [RowChange(op, key, row) for _, op, key, row in self.revisions(name, eid)]
        return [dict(row) for row in replay(changes).values()]

    def has_ended(self, eid: UUID) -> bool:
        row = self.connection.execute(
            "SELECT ended_at IS NOT NULL FROM recalled_events WHERE eid = %s", (eid,)
        ).fetchone()
        return row is not None and bool(row[0])

    def task_state(self, eid: UUID, recall: str = "norm") -> str:
        task = task_id(RULE, VERSION, recall, eid)
        row = self.connection.execute("SELECT state FROM tasks WHERE id = %s", (task,)).fetchone()
        assert row is not None
        return str(row[0])

    def add_alert(self, eid: UUID) -> None:
        """Store a firing alert whose first event this is."""
        self.connection.execute(
            "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state,"
            " starts_at, last_at, events) VALUES (%(eid)s, %(eid)s, %(rule)s, %(version)s, 'f', '{}',"
            " '{}', '{}', 'firing', now(), now(), 1)",
            {"eid": eid, "rule": RULE, "version": VERSION},
        )

    def histories(self) -> list[tuple[str, bool]]:
        """What conditions have said of alerts, and whether finally, oldest first."""
        return self.connection.execute(
            "SELECT history, final FROM alert_history ORDER BY id"
        ).fetchall()

    def clear(self) -> None:
        """Forget all recalls."""
        self.connection.execute(
            "TRUNCATE tasks, unsettled_reads, revisions, commands, recalled_events, revision_streams, row_revisions,"
            " stages, alerts, deployments, events, contexts CASCADE"
        )


@contextmanager
def stage_world(rows_per_chunk: int = 50) -> Iterator[StageWorld]:
    """An empty workspace."""
    with workspace(_WORKSPACE, "") as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        connection = database.connect_database(settings, "test")
        policy = CutPolicy(rows_per_chunk, duration_to_micros(timedelta(days=365)))
        archive = ArchiveWriter(
            storage.open_storage(settings), [SCHEMA], policy, connection, lambda: None
        )
        try:
            yield StageWorld(settings, connection, archive)
        finally:
            connection.close()
