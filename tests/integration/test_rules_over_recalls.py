"""Rules over the streams of recalls: detected at each revision, corrected, settled at the boundary."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.read.reader import Reader, SnapshotReader
from archiver.times import duration_to_micros
from moirae.config.settings import Settings
from moirae.config.table_schemas import stream_schema
from moirae.deployments.check import check_rule_files
from moirae.errors import ProblemsError
from moirae.incidents import IncidentEngine
from moirae.live.chunk_states import ChunkStates
from moirae.live.end_of_input import EndOfInput
from moirae.live.outbox import ArchivedTables
from moirae.rules.checks.check import check_rules
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from moirae.runtime import database
from recall.corpora import Corpora
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.routing.choice import EngineChoice
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.ledger.tasks import Ledger
from recall.stages.evaluation import StageEvaluator
from recall.stages.runner import StageConfig, StageRunner
from recall.worker.key_counts import KeyCounts
from recall.worker.manager import ManagerConfig, RecallManager
from tests.property.world import START, World

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  derived:
  - {stream: usual, expr: "SELECT ts, host, mean FROM means WHERE mean >= 50"}
  rules:
  - alert: Usual
    expr: SELECT ts, host, mean FROM usual
    key: [host]
    recall:
      count: {sql: SELECT count(*) AS n FROM a x WHERE x.host = event.host, range: 1h}
  - alert: High
    expr: SELECT host, ts, v FROM a WHERE v > 70
    key: [host]
    recall:
      norm: {sql: SELECT avg(x.v) AS mean FROM a x WHERE x.host = event.host, range: 1h, stream: means}
    then:
    - {stream: highs, sql: SELECT n.mean FROM norm n WHERE n.mean >= 50}
  - alert: Staged
    expr: SELECT ts, host, mean FROM highs
    key: [host]
  - alert: Revised
    expr: SELECT ts, host, seq, op FROM means_revisions WHERE op = 'update'
    key: [host]
    id: [host, seq]
"""
# Of h0 the old rows are low, of h1 all are as the newest ones.
HISTORY = [(second, "h0", 0.0 if second < 200 else 60.0) for second in range(0, 300, 5)]
HISTORY += [(second, "h1", 60.0) for second in range(1, 300, 5)]


@pytest.fixture(autouse=True)
def _no_revisions(connection: Connection[Any]) -> None:
    connection.execute("TRUNCATE recalled_events, revision_streams, row_revisions, stages CASCADE")


@contextmanager
def processes(world: World) -> Iterator[tuple[RecallManager, StageRunner]]:
    """A recall process."""
    schemas = [stream_schema(name, s) for name, s in world.settings.streams.items()]
    reader = Reader(world.root, schemas)
    session = world.spark.newSession
    with (
        database.connect_database(world.settings, "recall") as manager_connection,
        database.connect_database(world.settings, "stages") as stage_connection,
    ):
        engine = SparkEngine(session, reader, lambda _: pa.table({}))
        manager = RecallManager(
            manager_connection,
            Ledger(manager_connection, Ledger.acquire_lease(manager_connection)),
            Corpora(manager_connection, world.root),
            key_counts=KeyCounts(reader),
            config=ManagerConfig(
                engines=[EngineRouter(engine, LocalEngine(reader), PartialCache())],
                query_timeout=600.0,
            ),
        )
        evaluator = StageEvaluator(
            SnapshotReader(Reader(world.root, schemas)),
            relations=lambda _: pa.table({}),
            session=session,
            choice=EngineChoice("auto"),
            max_rows=100_000,
        )
        config = StageConfig(
            stream_columns={schema.name: schema.columns for schema in schemas},
            lateness={schema.name: duration_to_micros(schema.lateness) for schema in schemas},
        )
        try:
            yield manager, StageRunner(stage_connection, evaluator, config)
        finally:
            manager.shut_down()


def ingest(world: World, *rows: tuple[int, str, float]) -> None:
    """A batch of rows: second, host, v."""
    lines = []
    for second, host, v in rows:
        ts = (START + timedelta(seconds=second)).isoformat()
        lines.append(json.dumps({"ts": ts, "host": host, "v": v, "n": second}).encode())
    unit = SourceUnit("a", f"u{rows[0][0]}", JSONL, lambda: iter(lines))
    world.ingest([unit], at_once=True)
    world.follow_up.run()


def events(world: World, alert: str, settled: bool | None = None) -> dict[str, float]:
    """The means that the events of an alert have, by host."""
    query = (
        "SELECT key->>'host', (attributes->>'mean')::float8 FROM events WHERE rule = %s"
        " AND (%s::boolean IS NULL OR settled = %s)"
    )
    return dict(world.connection.execute(query, (f"g/{alert}", settled, settled)).fetchall())


def present_means(world: World) -> dict[str, float | None]:
    """The rows of the recall after its last revision, by host, by replay of the revisions."""
    query = (
        "SELECT e.event->'key'->>'host', r.op, (r.row->>'mean')::float8 FROM row_revisions r"
        " JOIN revision_streams s ON s.id = r.stream AND s.name = 'norm'"
        " JOIN recalled_events e USING (eid, version) WHERE e.rule = 'g/High' ORDER BY r.seq"
    )
    means: dict[str, float | None] = {}
    for host, op, mean in world.connection.execute(query).fetchall():
        if op == "delete":
            del means[host]
        elif op != "boundary":
            means[host] = mean
    return means


def alert_states(world: World, alert: str) -> dict[str, str]:
    query = "SELECT key->>'host', state FROM alerts WHERE rule = %s"
    return dict(world.connection.execute(query, (f"g/{alert}",)).fetchall())


def open_tasks(world: World) -> int:
    row = world.connection.execute(
        "SELECT count(*) FROM tasks WHERE state IN ('waiting', 'running')"
    ).fetchone()
    assert row is not None
    return int(row[0])


def follow(world: World) -> None:
    """What the live process does at intervals."""
    world.follow_up.run()
    world.detector.detect_revisions()
    world.detector.settle(include_filters=True)
    world.follow_up.run()


def test_rules_over_recalls_follow_each_revision(world: World) -> None:
    for start in range(0, len(HISTORY), 20):
        ingest(world, *sorted(HISTORY)[start : start + 20])
    ingest(world, (300, "h0", 90.0), (301, "h1", 90.0))
    assert events(world, "High").keys() == {"h0", "h1"}
    seen: list[set[str]] = []
    with processes(world) as (manager, runner):
        while open_tasks(world):
            manager.run_once()
            manager.wait_for_query()
            if len(seen) == 2:
                world.reopen()
            follow(world)
            means = present_means(world)
            expected = {host: mean for host, mean in means.items() if mean and mean >= 50}
            assert events(world, "Usual") == expected
            seen.append(set(expected))
            runner.run_once()
            follow(world)
            assert events(world, "Staged") == expected
        assert any("h0" in hosts for hosts in seen)  # by its newest chunks alone
        assert events(world, "Usual", settled=False) == {"h1": 60.0}
        assert alert_states(world, "Usual") == {"h0": "withdrawn", "h1": "provisional"}
        ingest(world, (400, "h2", 0.0))  # the watermark passes the events of High
        runner.end_events()
        follow(world)
        # Detected, settled and compared with one evaluation over the final rows.
        assert events(world, "Usual", settled=True) == {"h1": 60.0}
        assert alert_states(world, "Usual")["h1"] == "firing"
        assert events(world, "Staged", settled=True) == {"h1": 60.0}
        assert alert_states(world, "Staged") == {"h0": "withdrawn", "h1": "firing"}
        while open_tasks(world):
            manager.run_once()
            manager.wait_for_query()
    counts = world.connection.execute(
        "SELECT t.state, r.answer FROM tasks t JOIN revisions r ON r.task = t.id"
        " JOIN events e ON e.eid = t.eid WHERE t.rule = 'g/Usual' AND e.key->>'host' = 'h1'"
        " ORDER BY r.number DESC LIMIT 1"
    ).fetchall()
    assert counts == [("done", [{"n": 60}])]
    updates = world.connection.execute(
        "SELECT count(*) FROM row_revisions r JOIN revision_streams s ON s.id = r.stream"
        " WHERE s.rule = 'g/High' AND s.name = 'norm' AND r.op = 'update'"
    ).fetchone()
    revised = world.connection.execute(
        "SELECT count(*) FROM events WHERE rule = 'g/Revised' AND settled"
    ).fetchone()
    assert updates == revised


def end_of_input(world: World, can_wait: Callable[[], bool]) -> EndOfInput:
    return EndOfInput(
        archive=world.archive,
        detector=world.detector,
        follow_up=world.follow_up,
        incidents=cast(IncidentEngine, SimpleNamespace(run_to_end=lambda: None)),
        archived_tables=cast(ArchivedTables, SimpleNamespace(flush=lambda: None)),
        chunk_states=cast(ChunkStates, SimpleNamespace(finish=lambda: None)),
        can_wait=can_wait,
    )


@pytest.mark.slow
def test_end_of_input_waits_for_recalls(world: World) -> None:
    ingest(world, (0, "h1", 60.0), (10, "h1", 90.0))
    end_of_input(world, lambda: False).settle_all()
    assert events(world, "Usual", settled=True) == {}, "no recall process runs"
    waits = []
    with processes(world) as (manager, runner):

        def run_recalls() -> bool:
            """A recall process works while the end of the input waits."""
            waits.append(open_tasks(world))
            while open_tasks(world):
                manager.run_once()
                manager.wait_for_query()
            runner.run_once()
            runner.end_events()
            return True

        end_of_input(world, run_recalls).settle_all()
    assert waits[0] > 0
    assert events(world, "Usual", settled=True) == {"h1": 60.0}
    assert alert_states(world, "Usual") == {"h1": "resolved"}
    assert alert_states(world, "Staged") == {"h1": "resolved"}


def check(spark: SparkSession, settings: Settings, text: str) -> list[str]:
    rules, problems = parse_rules("r.yaml", text, settings.table_names)
    assert not problems, problems
    return [str(problem) for problem in check_rules(lambda: spark, settings, rules)[1]]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "FROM a WHERE v > 70",
            "FROM (SELECT ts, host, mean AS v FROM usual)",
            "r.yaml:13:11: g/High: cycle: g/High → means → g/High; a rule must not read what "
            "follows from its own events",
        ),
        (
            "count(*) AS n FROM a x",
            "count(*) AS n FROM means x",
            "r.yaml:11:20: g/Usual: it reads the stream means of a recall or stage; only event "
            "queries and derived streams read these",
        ),
        (
            'mean >= 50"',
            'mean >= 50", archive: true',
            "archive: it reads revisions, which are archived with their recalls",
        ),
        (
            "expr: SELECT ts, host, mean FROM usual",
            "absent: 5m\n    stream: means",
            "absence is of rows of declared streams; this reads revisions of a recall",
        ),
        (
            "avg(x.v) AS mean",
            "avg(x.nothing) AS mean",
            "stream means: rule g/High has errors",
        ),
    ],
)
def test_streams_that_a_rule_cannot_read_are_refused(
    spark: SparkSession, workspace_settings: Settings, old: str, new: str, problem: str
) -> None:
    assert old in RULES
    found = check(spark, workspace_settings, RULES.replace(old, new))
    assert any(problem in text for text in found), found


@pytest.mark.slow
def test_changed_reader_is_checked_with_the_unchanged_rule(
    spark: SparkSession, workspace_settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    checked, _ = check_rule_files(lambda: spark, workspace_settings, [path])
    restored = [Definition.from_json(json.loads(json.dumps(item.to_json()))) for item in checked]
    assert [item.rule.revision_streams for item in restored] == [
        item.rule.revision_streams for item in checked
    ]
    path.write_text(RULES.replace("mean >= 50", "mean >= 40"))
    again, _ = check_rule_files(lambda: spark, workspace_settings, [path], checked)
    assert [item.name for item in again] == [item.name for item in checked]
    path.write_text(RULES.replace("AS mean", "AS average"))
    with pytest.raises(ProblemsError, match="mean"):
        check_rule_files(lambda: spark, workspace_settings, [path], checked)
