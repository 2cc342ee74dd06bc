"""The recall process of a workspace: builds the configuration of the worker and runs it."""

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import sql
from archiver.periodic import Periodic
from archiver.storage import StorageRoot
from moirae.alerts import TablesOfRecalls
from moirae.backtest_process import BacktestSupervisor
from moirae.config import Settings, build_spark_settings
from moirae.deployments import RuleRegistry
from moirae.evaluation.plan import ActiveRule
from moirae.feedback import CalibrationTask
from moirae.history import HistoryBuilder, RelationVersions, WantedSummaries
from moirae.live import Relations
from moirae.rules import Definition
from moirae.rules.requests import build_event_plan, build_questions
from moirae.runtime import (
    Role,
    check_shared_values,
    connect_database,
    machine_name,
    record_failure,
    watch_parent,
)
from moirae.runtime.storage import check_generation, open_storage, recalled_streams
from recall.engines import Template
from recall.engines.routing import explain_engine
from recall.ledger import SchedulingPolicy
from recall.query import Unsupported
from recall.requests import SqlQuestion
from recall.stages import explain_stage_engine, stage_queries
from recall.worker import RecallConfig, RecallMetrics, run_task, run_worker
from sql.archive import ChunkGateway, StreamRenameGateway

_HEARTBEAT_INTERVAL = 2.0  # seconds
_RENAME_POLL = 0.2  # seconds
_MAX_PROCESSES = 8  # recall processes of one workspace
_MIB = 1 << 20  # bytes


def run_recall(settings: Settings, stop: threading.Event, parent_pid: int | None = None) -> None:
    """Serve recalls until `stop` is set, or until the process `parent_pid` ends."""
    watch_parent(parent_pid, stop)
    connection = connect_database(settings, "recall")
    check_generation(settings, connection)
    check_shared_values(settings, connection)
    role = Role.acquire_numbered(connection, "recall", _MAX_PROCESSES, machine_name(settings))
    _await_renames(settings, StreamRenameGateway(connection), role, stop)
    root = open_storage(settings)
    config = _build_config(settings, root)
    role.metrics = config.metrics.registry
    config = replace(
        config,
        name=role.name,
        start_spark_eagerly=needs_spark(settings, RuleRegistry(connection).desired_rules()),
        background=_build_history_builder(settings, config),
    )
    backtests = BacktestSupervisor(settings, stop)
    calibration = CalibrationTask(lambda: connect_database(settings, "recall learner"), root)
    role.heartbeat("starting")
    backtests.start()
    try:
        with record_failure(role):
            run_worker(config, connection, stop, _Heartbeat(role).record)
    finally:
        calibration.stop()
        backtests.shut_down()
    role.heartbeat("ended")


def _await_renames(
    settings: Settings, renames: StreamRenameGateway, role: Role, stop: threading.Event
) -> None:
    """Wait until the live process has renamed streams: it moves their tables."""
    names = [declared.was for declared in settings.streams.values() if declared.was is not None]
    while any(map(renames.is_known, names)):
        role.heartbeat("waiting for renamed streams")
        if stop.wait(_RENAME_POLL):
            return


class _Heartbeat:
    """Stores the activity of the process at intervals."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._activity = "running"
        self._periodic = Periodic("heartbeat", _HEARTBEAT_INTERVAL, self._store)

    def record(self, activity: str) -> None:
        """Store an activity if a heartbeat is due."""
        self._activity = activity
        self._periodic.run_if_due()

    def _store(self) -> None:
        self._role.heartbeat(self._activity)


def run_query_task(
    settings: Settings, connection: sql.Connection, task: UUID, stop: threading.Event
) -> None:
    """Work on the task of an ad-hoc query until `stop` is set, where no recall process runs."""
    run_task(_build_config(settings, open_storage(settings)), connection, task, stop)


def _build_history_builder(settings: Settings, config: RecallConfig) -> HistoryBuilder:
    columns = {name: relation.columns for name, relation in settings.relations.items()}
    builder = HistoryBuilder(
        connect_database(settings, "recall views look"),
        connect_database(settings, "recall views work"),
        config.root,
        config.schemas,
        RelationVersions(config.relations, frozenset(columns), columns),
        history=settings.archive_history.total_seconds(),
        engine=settings.recall.engine,
    )
    if settings.recall.corpus_memory is not None:
        builder.hold_no_corpora()
    return builder


def _corpus_memory_bytes(settings: Settings) -> int | None:
    megabytes = settings.recall.corpus_memory
    return None if megabytes is None else megabytes * _MIB


def _build_config(settings: Settings, root: StorageRoot) -> RecallConfig:
    connection = connect_database(settings, "recall relations")
    schemas = recalled_streams(settings, connection)
    declared = Relations(connection, settings.relations)
    relations = TablesOfRecalls(connection, declared.table, settings.relations.keys())
    return RecallConfig(
        root=root,
        schemas=schemas,
        relations=relations.table,
        unversioned=relations.unversioned,
        spark_master=settings.spark.master,
        warehouse=Path(settings.home) / "warehouse-recall",
        spark_settings=build_spark_settings(settings, "recall"),
        min_history_queries=settings.recall.history_queries_least,
        max_history_queries=settings.recall.history_queries,
        query_timeout=settings.recall.query_timeout.total_seconds(),
        engine=settings.recall.engine,
        policy=SchedulingPolicy(
            tickets_per_result=settings.recall.tickets_per_result,
            feedback_timeout=settings.recall.feedback_timeout,
        ),
        present_chunks=ChunkGateway(connect_database(settings, "recall present")).present_ids,
        present_memory_bytes=settings.recall.present_memory * _MIB,
        start_spark_eagerly=False,
        connect=lambda: connect_database(settings, "recall worker"),
        background=None,
        metrics=RecallMetrics(),
        archive_history=settings.archive_history,
        event_timeout=settings.recall.event_timeout,
        wanted_summaries=WantedSummaries(
            settings, lambda: connect_database(settings, "recall summaries"), schemas
        ),
        corpus_memory_bytes=_corpus_memory_bytes(settings),
        name="recall",
        stage_rows=settings.limits.stage_rows,
    )


def needs_spark(settings: Settings, definitions: Iterable[Definition]) -> bool:
    """Whether a rule has an SQL recall or a stage that nothing but Spark can run."""
    for definition in definitions:
        if not definition.spec.enabled:
            continue
        with suppress(Unsupported):  # a rule over a stream that the workspace has no longer
            rule = ActiveRule.of_workspace(definition, settings)
            if _has_recall_for_spark(settings, rule) or _has_stage_for_spark(settings, rule):
                return True
    return False


def _has_recall_for_spark(settings: Settings, rule: ActiveRule) -> bool:
    columns = {name: stream.query_columns for name, stream in settings.streams.items()}
    for question in build_questions(rule.definition, rule.tables).values():
        if isinstance(question, SqlQuestion):
            decision = explain_engine(Template(question), columns, settings.recall.engine)
            if decision.engine == "spark":
                return True
    return False


def _has_stage_for_spark(settings: Settings, rule: ActiveRule) -> bool:
    columns = {name: stream.query_columns for name, stream in settings.streams.items()}
    relations = {name: relation.columns for name, relation in settings.relations.items()}
    plan = build_event_plan(rule.definition, rule.tables, relations)
    if plan.stages and settings.recall.engine == "spark":
        return True
    for query in stage_queries(plan, columns).values():
        engine, _ = explain_stage_engine(query)
        if engine == "spark":
            return True
    return False
