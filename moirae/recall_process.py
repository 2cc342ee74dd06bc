"""The recall process of a workspace."""

import threading
import time
from pathlib import Path
from typing import Any

from psycopg import Connection

from archiver.ingest import Catalog
from moirae.config import Settings, stream_schema
from moirae.deployments import RuleRegistry
from moirae.feedback import CalibrationTask
from moirae.history import HistoryBuilder, RelationVersions
from moirae.live import Relations
from moirae.rules import SqlRecall
from moirae.runtime import Role, connect_database, open_storage, record_failure, watch_parent
from recall.ledger import SchedulingPolicy
from recall.worker import RecallConfig
from recall.worker import run_worker as serve

# Seconds between two signs of life; processes that share the work.
_HEARTBEAT_INTERVAL, _MAX_PROCESSES = 2.0, 8


def run_recall(settings: Settings, stop: threading.Event, parent_pid: int | None = None) -> None:
    """Serve recalls until `stop` is set. `parent`: the process with which this one ends."""
    watch_parent(parent_pid, stop)
    connection = connect_database(settings, "recall")
    role = Role.acquire_numbered(connection, "recall", _MAX_PROCESSES)
    home = Path(settings.home)
    root, schemas = (
        open_storage(settings),
        [stream_schema(name, declared) for name, declared in settings.streams.items()],
    )
    relations = Relations(connect_database(settings, "recall relations"), settings.relations)
    looking, working = (
        connect_database(settings, f"recall views {what}") for what in ("look", "work")
    )

    related = RelationVersions(relations.table, frozenset(settings.relations))
    place = RecallConfig(
        root,
        schemas,
        relations.table,
        settings.spark.master,
        home / "warehouse-recall",
        settings.spark.conf,
        (settings.recall.history_queries_least, settings.recall.history_queries),
        settings.recall.query_timeout.total_seconds(),
        settings.recall.engine,
        SchedulingPolicy(settings.recall.tickets_per_result, settings.recall.feedback_timeout),
        Catalog(connect_database(settings, "recall present")).present_chunks,
        settings.recall.present_memory << 20,
        _has_sql_recalls(connection),
        lambda: connect_database(settings, "recall worker"),
        HistoryBuilder(looking, working, root, schemas, related),
    )
    beaten = 0.0

    def beat() -> None:
        nonlocal beaten
        if time.monotonic() - beaten > _HEARTBEAT_INTERVAL:
            beaten = time.monotonic()
            role.heartbeat("running")

    learner = CalibrationTask(lambda: connect_database(settings, "recall learner"), root)
    role.heartbeat("starting")
    try:
        with record_failure(role):
            serve(place, connection, stop, beat)
    finally:
        learner.stop()
    role.heartbeat("ended")


def _has_sql_recalls(connection: Connection[Any]) -> bool:
    """Whether any deployed rule asks history in SQL."""
    specs = [definition.rule.spec for definition in RuleRegistry(connection).desired_rules()]
    return any(isinstance(recall, SqlRecall) for spec in specs for recall in spec.recall.values())
