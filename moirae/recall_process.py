"""The recall process of a workspace: builds the configuration of the worker and runs it."""

import threading
from functools import partial
from pathlib import Path

import sql
from archiver.periodic import Periodic
from archiver.storage import StorageRoot
from moirae.config import Settings, stream_schema
from moirae.deployments import RuleRegistry
from moirae.feedback import CalibrationTask
from moirae.history import HistoryBuilder, RelationVersions
from moirae.live import Relations
from moirae.rules import SqlRecall
from moirae.runtime import Role, connect_database, open_storage, record_failure, watch_parent
from recall.ledger import SchedulingPolicy
from recall.worker import RecallConfig, RecallMetrics, run_worker

_HEARTBEAT_INTERVAL = 2.0  # seconds
_MAX_PROCESSES = 8  # recall processes of one workspace
_MIB = 1 << 20  # bytes


def run_recall(settings: Settings, stop: threading.Event, parent_pid: int | None = None) -> None:
    """Serve recalls until `stop` is set, or until the process `parent_pid` ends."""
    watch_parent(parent_pid, stop)
    connection = connect_database(settings, "recall")
    role = Role.acquire_numbered(connection, "recall", _MAX_PROCESSES)
    root = open_storage(settings)
    config = _build_config(settings, connection, root)
    role.metrics = config.metrics.registry
    heartbeat = Periodic("heartbeat", _HEARTBEAT_INTERVAL, partial(role.heartbeat, "running"))
    calibration = CalibrationTask(lambda: connect_database(settings, "recall learner"), root)
    role.heartbeat("starting")
    try:
        with record_failure(role):
            run_worker(config, connection, stop, heartbeat.run_if_due)
    finally:
        calibration.stop()
    role.heartbeat("ended")


def _build_config(
    settings: Settings, connection: sql.Connection, root: StorageRoot
) -> RecallConfig:
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    relations = Relations(connect_database(settings, "recall relations"), settings.relations)
    history_builder = HistoryBuilder(
        connect_database(settings, "recall views look"),
        connect_database(settings, "recall views work"),
        root,
        schemas,
        RelationVersions(relations.table, frozenset(settings.relations)),
        history=settings.archive_history.total_seconds(),
    )
    return RecallConfig(
        root=root,
        schemas=schemas,
        relations=relations.table,
        spark_master=settings.spark.master,
        warehouse=Path(settings.home) / "warehouse-recall",
        spark_settings=settings.spark.conf,
        min_history_queries=settings.recall.history_queries_least,
        max_history_queries=settings.recall.history_queries,
        query_timeout=settings.recall.query_timeout.total_seconds(),
        engine=settings.recall.engine,
        policy=SchedulingPolicy(
            tickets_per_result=settings.recall.tickets_per_result,
            feedback_timeout=settings.recall.feedback_timeout,
        ),
        present_chunks=sql.ChunkGateway(connect_database(settings, "recall present")).present_ids,
        present_memory_bytes=settings.recall.present_memory * _MIB,
        start_spark_eagerly=_has_sql_recalls(connection),
        connect=lambda: connect_database(settings, "recall worker"),
        background=history_builder,
        metrics=RecallMetrics(),
    )


def _has_sql_recalls(connection: sql.Connection) -> bool:
    """Whether any deployed rule has an SQL recall."""
    for definition in RuleRegistry(connection).desired_rules():
        if any(isinstance(recall, SqlRecall) for recall in definition.recalls.values()):
            return True
    return False
