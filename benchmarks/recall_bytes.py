"""HS7: what an alert with two recalls leaves in the database, and in the archive.

Alerts with a norm and a similarity recall are served over a short and a long history, end with their
boundary, and are trimmed. Bytes are those of all tables and indexes without free space, and of the
files of the revision streams. The log of changes is left out: it is kept for a day.
"""

import sys
from datetime import timedelta

import sql
from archiver.read import Reader, SnapshotReader
from benchmarks.fixtures import folder_bytes
from benchmarks.long_history import (
    SCHEMA,
    BenchmarkHistory,
    fail_on_relation,
    fail_on_spark,
    run_manager_until,
)
from benchmarks.recall_load import OPEN_ALERTS, AlertSource, count_open, make_manager, open_world
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from recall.engines.routing import EngineChoice
from recall.ledger import RevisionArchive
from recall.stages import StageConfig, StageEvaluator, StageRunner

_CHUNKS = (30, 300)
_ALERTS = 60
_STAGE_ROWS = 100_000
_TABLE_BYTES = """
SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = 'public' AND c.relname <> 'changes'
"""


def run() -> list[BenchmarkResult]:
    """Measure both lengths of history."""
    noise = [time_noise_kernel()]
    in_database: list[float] = []
    in_both: list[float] = []
    for chunk_count in _CHUNKS:
        stored, archived = _measure(chunk_count)
        print(
            f"HS7 {chunk_count} chunks: {stored:.2f} kB, archive {archived:.2f} kB", file=sys.stderr
        )
        in_database.append(stored)
        in_both.append(stored + archived)
    noise.append(time_noise_kernel())
    details = {}
    for chunk_count, kilobytes in zip(_CHUNKS, in_database, strict=True):
        details[f"{chunk_count} chunks"] = round(kilobytes, 2)
    return [
        make_result(
            "HS7",
            "kB in the database per alert with two recalls, the larger of 30 and 300 chunks",
            [max(in_database)],
            target="≤ 8",
            details=details,
            noise=noise,
        ),
        make_result(
            "HS7",
            "the same with the archive of row revisions",
            [max(in_both)],
            target="≤ 12",
            noise=noise,
        ),
    ]


def _measure(chunk_count: int) -> tuple[float, float]:
    """kB per alert in the database and in the archive."""
    with open_world(chunk_count) as (history, source):
        _serve(history, source, OPEN_ALERTS)  # creates what all share
        before = _database_bytes(history.connection)
        archived_before = folder_bytes(history.root / "recalls")
        _serve(history, source, _ALERTS)
        stored = _database_bytes(history.connection) - before
        archived = folder_bytes(history.root / "recalls") - archived_before
    return stored / _ALERTS / 1_000, archived / _ALERTS / 1_000


def _serve(history: BenchmarkHistory, source: AlertSource, alerts: int) -> None:
    """Serve some alerts to their boundaries, and trim what they leave."""
    manager = make_manager(history)
    connection = history.connection
    for _ in range(alerts):
        source.add_alert()
        run_manager_until(manager, lambda: count_open(connection) <= 2 * OPEN_ALERTS)
    run_manager_until(manager, lambda: not count_open(connection))
    manager.shut_down()
    runner = _make_runner(history)
    while _count_without_boundary(connection):
        runner.end_events()
    archive = RevisionArchive(connection, history.root, 0.0, timedelta(0))
    archive.flush()
    archive.trim()


def _count_without_boundary(connection: sql.Connection) -> int:
    statement = "SELECT count(*) FROM recalled_events WHERE ended_at IS NULL"
    row = connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def _make_runner(history: BenchmarkHistory) -> StageRunner:
    evaluator = StageEvaluator(
        SnapshotReader(Reader(history.root, [SCHEMA])),
        relations=fail_on_relation,
        session=fail_on_spark,
        choice=EngineChoice("local"),
        max_rows=_STAGE_ROWS,
    )
    config = StageConfig(stream_columns={"past": SCHEMA.query_columns}, lateness={"past": 0})
    return StageRunner(history.connection, evaluator, config)


def _database_bytes(connection: sql.Connection) -> int:
    connection.execute("VACUUM FULL")
    row = connection.execute(_TABLE_BYTES).fetchone()
    assert row is not None
    return int(row[0])
