"""The paper's story of task migration, over the demo's simulator: candidates, corrected in time."""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.chunks.chunk import CutPolicy
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.read.reader import Reader, SnapshotReader
from archiver.times import duration_to_micros, to_micros
from moirae.config.settings import Settings, load_settings
from moirae.config.table_schemas import stream_schema
from moirae.demo.testbed import StreamName, Testbed
from moirae.deployments.registry import RuleRegistry
from moirae.evaluation.guard import Guard
from moirae.live.composition import build_detection
from moirae.live.relations import Relations
from moirae.rules.checks.check import check_rules
from moirae.rules.checks.stored_rules import RuleAdmission
from moirae.rules.parse import parse_rules
from moirae.runtime import database
from recall.corpora import Corpora
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.routing.choice import EngineChoice
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.ledger.tasks import Ledger
from recall.revisions.changes import RowChange, replay
from recall.stages.evaluation import StageEvaluator
from recall.stages.runner import StageConfig, StageRunner
from recall.worker.key_counts import KeyCounts
from recall.worker.manager import ManagerConfig, RecallManager

pytestmark = pytest.mark.services

LIVE = datetime(2026, 6, 1, tzinfo=UTC)
LIMIT = 32.5
_STREAMS: tuple[StreamName, ...] = ("node", "process", "ping")
"""Of the expected CPU of a candidate, as the rule has it."""

Rows = Sequence[dict[str, Any]]


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    shutil.copytree(str(files("moirae") / "examples" / "migration"), public_folder / "w")
    (public_folder / "w" / "hosts.csv").write_text("host,site,cores,memory_gb\n")
    return load_settings(public_folder / "w" / "moirae.yaml", {})


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "migration") as new_connection:
        yield new_connection


class Story:
    """One overload in a workspace: its detection, its recalls and its stages."""

    def __init__(
        self, spark: SparkSession, connection: Connection[Any], settings: Settings, root: Path
    ) -> None:
        self.spark, self.connection, self.settings, self.root = spark, connection, settings, root
        rule_file = settings.find_rule_files()[0]
        rules, problems = parse_rules("rules.yaml", rule_file.read_text(), settings.table_names)
        assert not problems
        definitions, check_problems = check_rules(lambda: spark, settings, rules)
        assert not check_problems, check_problems
        RuleRegistry(connection).apply(definitions)
        self.schemas = [stream_schema(name, s) for name, s in settings.streams.items()]
        policy = CutPolicy(7_000, duration_to_micros(timedelta(days=365)))
        self.archive = ArchiveWriter(root, self.schemas, policy, connection, lambda: None)
        self.detector, self.follow_up = build_detection(
            spark=spark,
            archive=self.archive,
            connection=connection,
            relations=Relations(connection, settings.relations),
            admission=RuleAdmission(lambda: spark, settings),
            guard=Guard(spark, settings, connection),
        )
        self.process_rows: list[dict[str, Any]] = []

    def ingest(self, rows_by_stream: dict[str, Rows]) -> None:
        """Archive and evaluate one unit of each stream."""
        units = []
        for stream, rows in rows_by_stream.items():
            lines = list(map(orjson.dumps, rows))
            name = str(rows[0]["ts"])
            units.append(SourceUnit(stream, name, JSONL, lambda lines=lines: iter(lines)))
        self.process_rows += rows_by_stream.get("process", [])
        ingested = self.archive.ingest(units, to_micros(LIVE + timedelta(days=1)))
        self.detector.detect_and_settle(ingested, include_filters=True)
        self.follow_up.run()

    @contextmanager
    def processes(self) -> Iterator[tuple[RecallManager, StageRunner]]:
        """The Recall Manager and the runner of stages of a recall process."""
        with (
            database.connect_database(self.settings, "recall") as connection,
            database.connect_database(self.settings, "stages") as stage_connection,
        ):
            reader = Reader(self.root, self.schemas)
            session = self.spark.newSession
            spark_engine = SparkEngine(session, reader, lambda _: pa.table({}))
            manager = RecallManager(
                connection,
                Ledger(connection, Ledger.acquire_lease(connection)),
                Corpora(connection, self.root),
                key_counts=KeyCounts(reader),
                config=ManagerConfig(
                    engines=[EngineRouter(spark_engine, LocalEngine(reader), PartialCache())],
                    query_timeout=600.0,
                ),
            )
            evaluator = StageEvaluator(
                SnapshotReader(Reader(self.root, self.schemas)),
                relations=lambda _: pa.table({}),
                session=session,
                choice=EngineChoice("auto"),
                max_rows=100_000,
            )
            config = StageConfig(
                stream_columns={schema.name: schema.columns for schema in self.schemas},
                lateness={
                    schema.name: duration_to_micros(schema.lateness) for schema in self.schemas
                },
            )
            try:
                yield manager, StageRunner(stage_connection, evaluator, config)
            finally:
                manager.shut_down()

    def rows(self, stream: str, eid: UUID) -> list[dict[str, Any]]:
        """The rows of an event to which the revisions of a stream lead."""
        revisions = self.connection.execute(
            "SELECT r.op, r.row_key, r.row FROM row_revisions r JOIN revision_streams s"
            " ON s.id = r.stream WHERE s.name = %s AND r.eid = %s ORDER BY r.seq",
            (stream, eid),
        ).fetchall()
        return [dict(row) for row in replay([RowChange(*change) for change in revisions]).values()]

    def expected_candidates(self, before: datetime, tasks: Rows) -> dict[str, float]:
        """The expected CPU of the nodes below the limit, over all process rows before a time."""
        usage: dict[str, list[float]] = defaultdict(list)
        for row in self.process_rows:
            if datetime.fromisoformat(str(row["ts"])) < before:
                usage[row["process"]].append(float(row["cpu"]))
        cpu_by_node: dict[str, float] = defaultdict(float)
        for task in tasks:
            values = usage[task["process"]]
            cpu_by_node[task["node"]] += sum(values) / len(values)
        return {node: cpu for node, cpu in cpu_by_node.items() if cpu < LIMIT}


@pytest.mark.slow
def test_candidates_are_useful_at_once_and_right_in_the_end(
    spark: SparkSession, connection: Connection[Any], settings: Settings, tmp_path: Path
) -> None:
    testbed = Testbed(1, LIVE - timedelta(days=1), LIVE, LIVE + timedelta(seconds=120), nodes=20)
    overload = next(f for f in testbed.failures if f.kind == "overload" and f.starts >= LIVE)
    story = Story(spark, connection, settings, tmp_path)
    story.ingest(
        {
            stream: [row for _, rows in testbed.history(stream) for row in rows]
            for stream in _STREAMS
        }
    )
    story.detector.reload(LIVE)  # the rule is new: overloads of the past start no recalls
    until = overload.starts + timedelta(seconds=10)
    story.ingest({stream: testbed.live(stream, LIVE, until) for stream in _STREAMS})
    found = connection.execute(
        "SELECT r.eid, r.ts FROM recalled_events r WHERE r.event->'key'->>'host' = %s",
        (overload.host,),
    ).fetchone()
    assert found is not None
    eid, ts = found
    answers: list[set[str]] = []
    with story.processes() as (manager, runner):
        for _ in range(300):
            manager.run_once()
            manager.wait_for_query()
            runner.run_once()
            nodes = {row["node"] for row in story.rows("candidates", eid)}
            if nodes and (not answers or nodes != answers[-1]):
                answers.append(nodes)
            state = connection.execute("SELECT state FROM tasks WHERE eid = %s", (eid,)).fetchone()
            if state == ("done",):
                break
        runner.run_once()
        candidates = {row["node"]: row["expected_cpu"] for row in story.rows("candidates", eid)}
        targets = {row["node"] for row in story.rows("targets", eid)}
    (tasks,) = connection.execute(
        "SELECT surroundings->'tasks' FROM contexts WHERE eid = %s", (eid,)
    ).fetchone() or ([],)
    expected = story.expected_candidates(ts, tasks)
    assert candidates == pytest.approx(expected)
    assert answers[0] & expected.keys(), "useful at the first answer"
    assert answers[0] - expected.keys(), "some early candidates were wrong"
    assert targets == set(expected), "each has answered a ping"
