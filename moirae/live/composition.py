"""Builds the live process of a workspace: which object gets which, and what runs how often."""

import threading
import time
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

import sql
from archiver.chunks import ChunkMaintenance, CutPolicy, LifecyclePolicy
from archiver.clock import utc_now
from archiver.delta.sequenced_table import CONTEXTS, EVENTS
from archiver.executors import ExecutorIngest, SparkJobs, TaskClustering
from archiver.ingest import ArchiveWriter, hold_watermarks
from archiver.ingest.engines import EnginePolicy
from archiver.periodic import Periodic, Schedule
from archiver.read import WIDE_SCAN_ROWS
from archiver.storage import StorageRoot
from archiver.threads import start_daemon
from archiver.times import duration_to_micros
from moirae.config import (
    EXTERNAL_ALERTS,
    FileSource,
    Settings,
    digest_declarations,
    stream_schema,
)
from moirae.deployments import (
    ExternalRules,
    InitialRules,
    RuleFileLoader,
    RuleRegistry,
    RuleReloader,
)
from moirae.evaluation import ExecutorRules, Guard, PreparedRules, RuleEngines
from moirae.live.active_rules import ActiveRules
from moirae.live.alert_contexts import AlertContexts
from moirae.live.chunk_states import ChunkStates
from moirae.live.column_rewrites import ColumnRewrites
from moirae.live.declaration_watch import DeclarationWatch
from moirae.live.detection import Detector
from moirae.live.early_rules import start_preparing
from moirae.live.end_of_input import EndOfInput
from moirae.live.evaluators import build_evaluators, get_stream_columns
from moirae.live.external_alerts import ExternalAlerts
from moirae.live.file_checks import run_file_checks
from moirae.live.follow_up import AlertFollowUp, is_recall_running
from moirae.live.incidents import (
    apply_incident_settings,
    build_incident_engine,
    make_incident_task,
)
from moirae.live.ingest import Ingest
from moirae.live.live_role import LiveRole
from moirae.live.loop import LiveProcess
from moirae.live.losing_rules import LosingRulesMonitor
from moirae.live.lost_input import LostInputMonitor
from moirae.live.metrics import BatchFigures, LiveMetrics
from moirae.live.no_input import NoInputMonitor
from moirae.live.outbox import ArchivedTables, open_outboxes
from moirae.live.overdue_backup import OverdueBackupMonitor
from moirae.live.relations import Relations
from moirae.live.repeated_ends import has_ended_repeatedly
from moirae.live.retention import Retention
from moirae.live.rule_tasks import make_rule_tasks
from moirae.live.set_aside import SetAside
from moirae.live.silent_alerts import SilentAlerts
from moirae.live.sources import (
    FileInput,
    GrowingFileInput,
    IdleSources,
    IdleTracker,
    InputArchiving,
    LandedBatches,
    LandingFolders,
    SourceKey,
    Sources,
    TopicReaders,
)
from moirae.live.spark_start import start_spark
from moirae.live.stored_bytes import run_measurements
from moirae.live.stream_renames import rename_streams
from moirae.live.unit_failures import UnitFailures
from moirae.live.unread_input import UnreadInputRecorder
from moirae.live.worse_forecasts import WorseForecastsMonitor
from moirae.rules.checks import RuleAdmission
from moirae.runtime import (
    Role,
    Standby,
    check_relations,
    check_shared_values,
    connect_database,
    keep_lease,
    machine_name,
    read_backup_state,
    update_relations,
)
from moirae.runtime.storage import (
    Landings,
    archived_streams,
    check_declarations,
    check_generation,
    check_storage,
    open_storage,
)
from recall.engines.routing import EngineChoice, EngineSetting
from sql.alerts import AlertGateway
from sql.archive import (
    ColumnRewriteGateway,
    GrowingFileGateway,
    SetAsideGateway,
    UnitGateway,
    UnreadInputGateway,
)
from sql.processes import ProcessExitGateway
from sql.recalls import TaskGateway
from sql.rules import DeploymentGateway
from sql.similarity import ForecastGateway
from sql.topics import LostRecordsGateway, SourceErrorGateway

_HEARTBEAT_INTERVAL = 2.0  # seconds
_FLUSH_INTERVAL = 5.0  # seconds between checks for settled events to archive
_MAINTENANCE_INTERVAL = 1.0  # seconds between updates of chunk states
_RETENTION_INTERVAL = 60.0  # seconds between runs of the retention
_RETENTION_BATCH_INTERVAL = 0.5  # seconds between the batches of one run
_RETRY_INTERVAL = 1.0  # seconds between checks for dead letters to retry
_LOST_INPUT_INTERVAL = 2.0  # seconds between checks whether records were lost
_LOST_VERDICTS_INTERVAL = 5.0  # seconds between checks of rules that lose verdicts
_POSTED_ALERTS_INTERVAL = 1.0  # seconds between looks for posted alerts that have ended
_NO_INPUT_INTERVAL = 10.0  # seconds between checks whether rows arrive
_BACKUP_INTERVAL = 10.0  # seconds between checks whether a backup is overdue
_FORECASTS_INTERVAL = 10.0  # seconds between checks whether forecasts are worse than frequencies
_COLUMNS_INTERVAL = 1.0  # seconds between looks at the rewrites for changed columns
_DECLARATIONS_INTERVAL = 2.0  # seconds between looks for changes of the workspace file
_TOPICS_INTERVAL = 1.0  # seconds between reports of topics that cannot be read
_UNREAD_INTERVAL = 5.0  # seconds between looks for input that waits
_ROLE_TIMEOUT = 15.0  # seconds to wait for the predecessor to release the role
_READER_GRACE = 60.0  # seconds that expired files outlive the longest history query


def build_live_process(
    settings: Settings,
    *,
    stop: threading.Event,
    drain: bool,
    reload_requested: threading.Event,
) -> LiveProcess:
    """Acquire the role, open the archive, start Spark, and build the process.

    Raises `Stopped` if a stop is requested meanwhile, and `MoiraeError`.
    """
    started_at = time.monotonic()
    # The alerts of a drain are not notified.
    connection = connect_database(settings, "live", "-c moirae.notify=off" if drain else "")
    metrics = LiveMetrics()
    check_shared_values(settings, connection)
    standby = Standby(machine_name(settings), stop, waits=not drain)
    acquired = Role(connection, "live", _ROLE_TIMEOUT, standby)
    keep_lease(settings, "live", acquired.epoch)
    acquired.metrics = metrics.registry
    acquired.declare(digest_declarations(settings))
    role = LiveRole(acquired, stop, drain=drain, started_at=started_at)
    role.end_if_stopped()
    check_storage(settings)
    check_generation(settings, connection)
    root = open_storage(settings)
    archive = _open_archive(settings, connection, root, role)
    outboxes = open_outboxes(connection, root)
    archived_tables = ArchivedTables(outboxes, archive)
    maintenance = _build_maintenance(settings, connection, root)
    chunk_states = ChunkStates(
        archive,
        maintenance,
        policy=_make_lifecycle_policy(settings),
        tasks=TaskGateway(connection),
    )
    landing_folders = LandingFolders(Landings.of(settings), settings.streams)
    retention = Retention(connection, settings, outboxes, landing_folders.batch_names)
    set_aside = SetAside(SetAsideGateway(connection))
    set_aside.forget_undeclared(settings.streams, settings.relations)
    relations = _open_relations(settings, connection, set_aside)
    prepared = PreparedRules(get_stream_columns(archive), relations.columns)
    preparation = start_preparing(settings, prepared, archive, relations)
    spark = start_spark(settings)
    role.end_if_stopped()
    preparation.result()
    jobs = _add_executors(settings, spark, archive, maintenance)
    admission = RuleAdmission(lambda: spark, settings)
    guard = Guard(spark, settings, connection)
    detector, follow_up = build_detection(
        spark=spark,
        archive=archive,
        connection=connection,
        relations=relations,
        admission=admission,
        guard=guard,
        engines=replace(_choose_engines(settings, jobs), prepared=prepared),
    )
    # The alerts of a drain are not notified.
    detector.silent_alerts.finds_reasons = not drain
    detector.on_rule_seconds(metrics.record_evaluation)
    idle_tracker = IdleTracker({name: declared.idle for name, declared in settings.streams.items()})
    no_input = None
    if settings.no_input is not None and settings.declares_streams and not drain:
        no_input = NoInputMonitor(AlertGateway(connection), settings.no_input)

    def record_batch(batch: BatchFigures) -> None:
        metrics.record_batch(batch)
        if no_input is not None:
            no_input.record_rows(batch.rows)

    units = UnitGateway(connection)
    unit_failures = UnitFailures(set_aside, units, landing_folders.batch_names)
    _review_failures(settings, connection, unit_failures)
    ingest = Ingest(
        archive=archive,
        detector=detector,
        follow_up=follow_up,
        role=role,
        unit_failures=unit_failures,
        idle_tracker=idle_tracker,
        record_batch=record_batch,
    )
    external_alerts = ExternalAlerts(
        connection,
        archive.tables[EXTERNAL_ALERTS],
        ExternalRules(connection, settings.limits.external_rules),
        detector.find_external_rule,
        lambda: detector.reload(ingest.event_time),
        settings.resolve_timeout,
        role.heartbeat,
    )
    ingest.external_alerts = external_alerts
    lock = threading.Lock()
    archiving = InputArchiving(
        archive=archive, ingest=ingest, failures=unit_failures, units=units, lock=lock
    )
    topics = TopicReaders(spark, settings, archiving, SourceErrorGateway(connection), drain=drain)
    sources = Sources(
        [
            FileInput(spark, settings, archiving, drain=drain),
            topics,
            GrowingFileInput(settings, archiving, GrowingFileGateway(connection), drain=drain),
            LandedBatches(landing_folders, archiving, drain=drain),
        ],
        archive,
        drain=drain,
    )
    idle_sources = IdleSources(archive=archive, tracker=idle_tracker, has_unread=sources.has_unread)
    unread_input = UnreadInputRecorder(
        UnreadInputGateway(connection), list(settings.streams), sources.oldest_unread
    )

    def report_input() -> None:
        topics.report()
        unread_input.record()

    def end_silent_alerts() -> None:
        # What is posted and not archived yet may prolong them.
        if not sources.has_unread(SourceKey(EXTERNAL_ALERTS, None)):
            external_alerts.end_silent(utc_now())

    column_rewrites = ColumnRewrites(root, archive.tables, ColumnRewriteGateway(connection))
    periodics = make_rule_tasks(archive, detector, follow_up, idle_sources, drain=drain)
    lost_input = LostInputMonitor(AlertGateway(connection), LostRecordsGateway(connection))
    worse_forecasts = WorseForecastsMonitor(AlertGateway(connection), ForecastGateway(connection))
    losing_rules = LosingRulesMonitor(
        AlertGateway(connection), DeploymentGateway(connection), detector.resume_recovered
    )
    incidents = build_incident_engine(settings, connection, archive)
    if not drain:
        periodics.append(make_incident_task(incidents))
    periodics += [
        Periodic("end posted alerts", _POSTED_ALERTS_INTERVAL, end_silent_alerts),
        Periodic("watch losses", _LOST_INPUT_INTERVAL, lost_input.run_once),
        Periodic("watch forecasts", _FORECASTS_INTERVAL, worse_forecasts.run_once),
        Periodic("watch lost verdicts", _LOST_VERDICTS_INTERVAL, losing_rules.run_once),
    ]
    if settings.backup is not None and not drain:
        overdue_backup = OverdueBackupMonitor(
            AlertGateway(connection), partial(read_backup_state, connection, settings.backup)
        )
        periodics.append(Periodic("watch backups", _BACKUP_INTERVAL, overdue_backup.run_once))
    if no_input is not None:
        periodics.append(Periodic("watch input", _NO_INPUT_INTERVAL, no_input.run_once))

    def apply(changed: Settings) -> None:
        apply_incident_settings(incidents, changed)
        retention.keep_alerts(changed.alerts.keep)

    declarations = DeclarationWatch(settings, apply)
    periodics += [
        Periodic("maintain chunks", _MAINTENANCE_INTERVAL, chunk_states.update),
        Periodic("retry dead letters", _RETRY_INTERVAL, ingest.retry_dead_letters),
        _make_retention_task(retention, archive),
        Periodic("archive settled rows", _FLUSH_INTERVAL, archived_tables.flush_if_due),
        Periodic("change columns", _COLUMNS_INTERVAL, column_rewrites.update),
        Periodic("report topics", _TOPICS_INTERVAL, topics.report),
        Periodic("look for unread input", _UNREAD_INTERVAL, unread_input.record),
        Periodic("look for changed declarations", _DECLARATIONS_INTERVAL, declarations.look),
        Periodic("heartbeat", _HEARTBEAT_INTERVAL, role.heartbeat),
    ]
    if not drain:
        start_daemon(partial(run_file_checks, settings, stop), "check files")
    start_daemon(partial(run_measurements, settings, stop), "measure bytes")
    return LiveProcess(
        role=role,
        lock=lock,
        spark=spark,
        initial_rules=InitialRules(
            settings,
            RuleFileLoader(lambda: spark, settings, connection, admission),
            RuleRegistry(connection),
            required=drain,
        ),
        reloader=RuleReloader(lambda: spark, settings, admission, reload_requested),
        drain=drain,
        relations=relations,
        detector=detector,
        ingest=ingest,
        sources=sources,
        schedule=Schedule(periodics),
        column_rewrites=column_rewrites,
        report_input=report_input,
        end_of_input=EndOfInput(
            archive=archive,
            detector=detector,
            follow_up=follow_up,
            incidents=incidents,
            archived_tables=archived_tables,
            chunk_states=chunk_states,
            can_wait=lambda: not role.is_stopped and is_recall_running(connection),
        ),
    )


def _open_archive(
    settings: Settings, connection: sql.Connection, root: StorageRoot, role: LiveRole
) -> ArchiveWriter:
    """Open the archive with the streams and columns as they are declared. Raises `MoiraeError`."""
    rename_streams(settings, connection, root)
    check_declarations(settings)
    archive = ArchiveWriter(
        root,
        [stream_schema(name, declared) for name, declared in settings.streams.items()],
        policy=CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age)),
        connection=connection,
        fence=role.fence,
    )
    hold_watermarks(archive, connection)
    archive.engines.policy = EnginePolicy(settings.engine, settings.spark.large_batch)
    return archive


def _open_relations(
    settings: Settings, connection: sql.Connection, set_aside: SetAside
) -> Relations:
    """The relations. Their files are watched from now on: they may have to be unchanged for seconds.

    Raises `MoiraeError`.
    """
    check_relations(settings, connection)
    update_relations(settings.relations, connection)
    relations = Relations(connection, settings.relations, failures=set_aside)
    relations.watch()
    return relations


def _review_failures(
    settings: Settings, connection: sql.Connection, failures: UnitFailures
) -> None:
    """Suspect units by which processes may have ended; forget files of streams without files."""
    if has_ended_repeatedly(ProcessExitGateway(connection), utc_now()):
        failures.suspect_open_units()
    for name, declared in settings.streams.items():
        if not isinstance(declared.source, FileSource):
            failures.forget_missing(name, frozenset())


def _file_grace(settings: Settings) -> float:
    """Seconds that files of expired chunks stay: longer than every query that may read them."""
    return settings.recall.longest_query + _READER_GRACE


def _build_maintenance(
    settings: Settings, connection: sql.Connection, root: StorageRoot
) -> ChunkMaintenance:
    return ChunkMaintenance(
        root,
        archived_streams(settings, connection),
        _file_grace(settings),
        (EVENTS, CONTEXTS),
        history=settings.archive_history.total_seconds(),
    )


def _make_lifecycle_policy(settings: Settings) -> LifecyclePolicy:
    keep = settings.chunks.keep
    keep_micros = None if keep is None else duration_to_micros(keep)
    stream_retention = {
        name: duration_to_micros(stream.keep)
        for name, stream in settings.streams.items()
        if stream.keep is not None
    }
    return LifecyclePolicy(
        settings.chunks.recent, keep_micros, _file_grace(settings), stream_retention
    )


def _add_executors(
    settings: Settings,
    spark: SparkSession,
    archive: ArchiveWriter,
    maintenance: ChunkMaintenance,
) -> SparkJobs | None:
    """Let executors archive and cluster rows, as the key `engine` says; None: they do not."""
    if settings.engine == "local":
        return None
    jobs = SparkJobs(spark.sparkContext)
    archive.engines.executors = ExecutorIngest(jobs, archive.engines.sizes)
    if settings.engine == "spark":
        # With auto, a thread of low priority clusters, which leaves the cores to live work.
        maintenance.rewrite = TaskClustering(jobs)
        jobs.warm_up()
    return jobs


def _choose_engines(settings: Settings, jobs: SparkJobs | None) -> RuleEngines:
    setting: EngineSetting = settings.recall.engine
    if jobs is None:
        return RuleEngines(EngineChoice(setting))
    executor_rules = ExecutorRules(jobs, settings.limits.statement.total_seconds())
    max_read_rows = WIDE_SCAN_ROWS
    if settings.engine == "spark":
        setting = "spark"
        max_read_rows = 0
    return RuleEngines(EngineChoice(setting), executor_rules, max_read_rows)


def build_detection(
    *,
    spark: SparkSession,
    archive: ArchiveWriter,
    connection: sql.Connection,
    relations: Relations,
    admission: RuleAdmission,
    guard: Guard,
    engines: RuleEngines = RuleEngines(),
) -> tuple[Detector, AlertFollowUp]:
    """Build the evaluation of rules and the follow-up of their alerts."""
    evaluators = build_evaluators(
        spark,
        archive,
        guard,
        connection=connection,
        relations=relations.columns,
        engines=engines,
    )
    contexts = AlertContexts(evaluators.contexts, connection)
    active_rules = ActiveRules(
        archive=archive,
        connection=connection,
        relations=relations,
        admission=admission,
        evaluators=evaluators,
    )
    detector = Detector(
        archive=archive,
        connection=connection,
        active_rules=active_rules,
        evaluators=evaluators,
        contexts=contexts,
        silent_alerts=SilentAlerts(evaluators.rows, archive),
    )
    follow_up = AlertFollowUp(
        archive=archive,
        connection=connection,
        active_rules=active_rules,
        contexts=contexts,
        relations=relations.columns,
    )
    return detector, follow_up


def _make_retention_task(retention: Retention, archive: ArchiveWriter) -> Periodic:
    """Run the retention at intervals; with much to delete, it continues in short steps."""

    def run_once() -> None:
        if retention.run_once(archive):
            task.run_again_after(_RETENTION_BATCH_INTERVAL)

    task = Periodic("retention", _RETENTION_INTERVAL, run_once, first_after=_RETENTION_INTERVAL)
    return task
