"""Builds the live process of a workspace: which object gets which, and what runs how often."""

import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

import sql
from archiver.chunks import ChunkMaintenance, CutPolicy, LifecyclePolicy
from archiver.delta.sequenced_table import CONTEXTS, EVENTS
from archiver.executors import ExecutorIngest, SparkJobs, TaskClustering
from archiver.ingest import ArchiveWriter, hold_watermarks
from archiver.ingest.engines import EnginePolicy
from archiver.periodic import Periodic, Schedule
from archiver.read import WIDE_SCAN_ROWS
from archiver.times import duration_to_micros
from moirae.config import FileSource, Settings, stream_schema
from moirae.deployments import InitialRules, RuleFileLoader, RuleRegistry, RuleReloader
from moirae.evaluation import ExecutorRules, Guard
from moirae.live.active_rules import ActiveRules
from moirae.live.alert_contexts import AlertContexts
from moirae.live.chunk_states import ChunkStates
from moirae.live.column_rewrites import ColumnRewrites
from moirae.live.detection import Detector
from moirae.live.end_of_input import EndOfInput
from moirae.live.evaluators import RuleEngines, build_evaluators
from moirae.live.event_time import current_event_time
from moirae.live.follow_up import AlertFollowUp, is_recall_running
from moirae.live.ingest import Ingest
from moirae.live.landed_input import LandedInput
from moirae.live.live_role import LiveRole
from moirae.live.loop import LiveProcess
from moirae.live.lost_input import LostInputMonitor
from moirae.live.metrics import BatchFigures, LiveMetrics
from moirae.live.no_input import NoInputMonitor
from moirae.live.outbox import ArchivedTables, open_outboxes
from moirae.live.relations import Relations
from moirae.live.repeated_ends import has_ended_repeatedly
from moirae.live.retention import Retention
from moirae.live.set_aside import SetAside
from moirae.live.sources import (
    FileInput,
    IdleSources,
    IdleTracker,
    LandingFolders,
    SourceQueries,
    TopicArchiving,
    TopicReaders,
)
from moirae.live.spark_start import start_spark
from moirae.live.stream_renames import rename_streams
from moirae.live.unit_failures import UnitFailures
from moirae.live.unread_input import UnreadInputRecorder
from moirae.rules.checks import RuleAdmission
from moirae.runtime import Role, check_relations, connect_database, update_relations
from moirae.runtime.storage import archived_streams, check_declarations, check_storage, open_storage
from recall.engines.routing import EngineChoice, EngineSetting
from sql.alerts import AlertGateway
from sql.archive import ColumnRewriteGateway, SetAsideGateway, UnitGateway, UnreadInputGateway
from sql.processes import ProcessExitGateway
from sql.recalls import TaskGateway
from sql.topics import LostRecordsGateway, SourceErrorGateway

_HEARTBEAT_INTERVAL = 2.0  # seconds
_FLUSH_INTERVAL = 5.0  # seconds between checks for settled events to archive
_MAINTENANCE_INTERVAL = 1.0  # seconds between updates of chunk states
_RETENTION_INTERVAL = 60.0  # seconds between runs of the retention
_RETENTION_BATCH_INTERVAL = 0.5  # seconds between the batches of one run
_RETRY_INTERVAL = 1.0  # seconds between checks for dead letters to retry
_RELOAD_INTERVAL = 0.5  # seconds between checks for changed rules and relations
_FOLLOW_UP_INTERVAL = 0.5  # seconds between checks for changed alerts, apart from those after rows
_LOST_INPUT_INTERVAL = 2.0  # seconds between checks whether records were lost
_NO_INPUT_INTERVAL = 10.0  # seconds between checks whether rows arrive
_REVISIONS_INTERVAL = 0.5  # seconds between checks for revisions that rules read
_COLUMNS_INTERVAL = 1.0  # seconds between looks at the rewrites for changed columns
_TOPICS_INTERVAL = 1.0  # seconds between reports of topics that cannot be read
_UNREAD_INTERVAL = 5.0  # seconds between looks for input that waits
_EACH_ROUND = 0.0  # seconds
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
    connection = connect_database(settings, "live")
    metrics = LiveMetrics()
    acquired = Role(connection, "live", _ROLE_TIMEOUT)
    acquired.metrics = metrics.registry
    role = LiveRole(acquired, stop, drain=drain, started_at=started_at)
    role.end_if_stopped()
    check_storage(settings)
    root = open_storage(settings)
    rename_streams(settings, connection, root)
    check_declarations(settings)
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    archive = ArchiveWriter(
        root,
        schemas,
        policy=CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age)),
        connection=connection,
        fence=role.fence,
    )
    hold_watermarks(archive, connection)
    archive.engines.policy = EnginePolicy(settings.engine, settings.spark.large_batch)
    outboxes = open_outboxes(connection, root)
    archived_tables = ArchivedTables(outboxes, archive)
    # Files outlive every query that may still read them.
    grace = settings.recall.longest_query + _READER_GRACE
    maintenance = ChunkMaintenance(
        root,
        archived_streams(settings, connection),
        grace,
        (EVENTS, CONTEXTS),
        history=settings.archive_history.total_seconds(),
    )
    chunk_states = ChunkStates(
        archive,
        maintenance,
        policy=_make_lifecycle_policy(settings, grace),
        tasks=TaskGateway(connection),
    )
    home = Path(settings.home)
    landing_folders = LandingFolders(home, settings.streams)
    retention = Retention(connection, settings, outboxes, landing_folders.batch_names)
    set_aside = SetAside(SetAsideGateway(connection))
    set_aside.forget_undeclared(settings.streams, settings.relations)
    check_relations(settings, connection)
    update_relations(settings.relations, connection)
    relations = Relations(connection, settings.relations, failures=set_aside)
    relations.watch()  # while Spark starts: files may have to be unchanged for seconds
    spark = start_spark(settings)
    role.end_if_stopped()
    jobs = _add_executors(settings, spark, archive, maintenance)
    admission = RuleAdmission(spark, settings)
    guard = Guard(spark, settings, connection)
    guard.on_cost = metrics.record_evaluation
    detector, follow_up = build_detection(
        spark=spark,
        archive=archive,
        connection=connection,
        relations=relations,
        admission=admission,
        guard=guard,
        engines=_choose_engines(settings, jobs),
    )
    idle_tracker = IdleTracker({name: declared.idle for name, declared in settings.streams.items()})
    no_input = None
    if settings.no_input is not None and settings.streams and not drain:
        no_input = NoInputMonitor(AlertGateway(connection), settings.no_input)

    def record_batch(batch: BatchFigures) -> None:
        metrics.record_batch(batch)
        if no_input is not None:
            no_input.record_rows(batch.rows)

    unit_failures = UnitFailures(set_aside, UnitGateway(connection), landing_folders.batch_names)
    if has_ended_repeatedly(ProcessExitGateway(connection), datetime.now(UTC)):
        unit_failures.suspect_open_units()
    for name, declared in settings.streams.items():
        if not isinstance(declared.source, FileSource):
            unit_failures.forget_missing(name, frozenset())
    ingest = Ingest(
        archive=archive,
        detector=detector,
        follow_up=follow_up,
        role=role,
        unit_failures=unit_failures,
        idle_tracker=idle_tracker,
        record_batch=record_batch,
    )
    lock = threading.Lock()
    units = UnitGateway(connection)
    archiving = TopicArchiving(
        archive=archive,
        ingest=ingest,
        units=units,
        errors=SourceErrorGateway(connection),
        lock=lock,
    )
    topics = TopicReaders(spark, settings, archiving, drain=drain)
    files = FileInput(
        spark=spark,
        settings=settings,
        ingest=ingest,
        find_archived=units.finished_names,
        is_waiting=archive.is_waiting,
        lock=lock,
        drain=drain,
    )
    queries = SourceQueries(settings, files, topics, drain=drain)
    landed_input = LandedInput(landing_folders, ingest, unit_failures)
    idle_sources = IdleSources(
        settings=settings,
        archive=archive,
        tracker=idle_tracker,
        has_landed=lambda stream: landed_input.oldest_unread(stream) is not None,
        queries=queries,
    )

    def find_oldest_unread(stream: str) -> datetime | None:
        times = [
            landed_input.oldest_unread(stream),
            queries.oldest_unread_file(stream),
            topics.unread_since(stream),
        ]
        oldest = min((time for time in times if time is not None), default=None)
        return None if oldest is None else datetime.fromtimestamp(oldest, UTC)

    unread_input = UnreadInputRecorder(
        UnreadInputGateway(connection), list(settings.streams), find_oldest_unread
    )

    column_rewrites = ColumnRewrites(root, archive.tables, ColumnRewriteGateway(connection))
    periodics = _make_rule_tasks(archive, detector, follow_up, idle_sources, drain=drain)
    lost_input = LostInputMonitor(AlertGateway(connection), LostRecordsGateway(connection))
    periodics.append(Periodic("watch losses", _LOST_INPUT_INTERVAL, lost_input.run_once))
    if no_input is not None:
        periodics.append(Periodic("watch input", _NO_INPUT_INTERVAL, no_input.run_once))
    periodics += [
        Periodic("maintain chunks", _MAINTENANCE_INTERVAL, chunk_states.update),
        Periodic("retry dead letters", _RETRY_INTERVAL, ingest.retry_dead_letters),
        _make_retention_task(retention, archive),
        Periodic("archive settled rows", _FLUSH_INTERVAL, archived_tables.flush_if_due),
        Periodic("change columns", _COLUMNS_INTERVAL, column_rewrites.update),
        Periodic("report topics", _TOPICS_INTERVAL, topics.report),
        Periodic("look for unread input", _UNREAD_INTERVAL, unread_input.record),
        Periodic("heartbeat", _HEARTBEAT_INTERVAL, role.heartbeat),
    ]
    return LiveProcess(
        role=role,
        lock=lock,
        spark=spark,
        initial_rules=InitialRules(
            RuleFileLoader(spark, settings, connection, admission),
            RuleRegistry(connection),
            required=drain,
        ),
        reloader=RuleReloader(spark, settings, admission, reload_requested),
        drain=drain,
        relations=relations,
        detector=detector,
        ingest=ingest,
        landed_input=landed_input,
        queries=queries,
        schedule=Schedule(periodics),
        column_rewrites=column_rewrites,
        unread_input=unread_input,
        end_of_input=EndOfInput(
            archive=archive,
            detector=detector,
            follow_up=follow_up,
            archived_tables=archived_tables,
            chunk_states=chunk_states,
            can_wait=lambda: not role.is_stopped and is_recall_running(connection),
        ),
    )


def _make_lifecycle_policy(settings: Settings, grace: float) -> LifecyclePolicy:
    """`grace`: how long files of expired chunks stay, in seconds."""
    keep = settings.chunks.keep
    return LifecyclePolicy(
        settings.chunks.recent, None if keep is None else duration_to_micros(keep), grace
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
    )
    follow_up = AlertFollowUp(
        archive=archive,
        connection=connection,
        active_rules=active_rules,
        contexts=contexts,
        relations=relations.columns,
    )
    return detector, follow_up


def _make_rule_tasks(
    archive: ArchiveWriter,
    detector: Detector,
    follow_up: AlertFollowUp,
    idle_sources: IdleSources,
    *,
    drain: bool,
) -> list[Periodic]:
    """What rules and alerts need without new rows, in the order of a round of the loop."""

    def advance_sources() -> None:
        idle_sources.follow_rows_ahead(datetime.now(UTC))
        idle_sources.advance()

    def reload_rules() -> None:
        detector.reload(current_event_time(archive))

    def detect_revisions() -> None:
        # Boundaries hold once the recalls of all alerts are requested.
        if detector.reads_revisions and not follow_up.run() and detector.detect_revisions():
            follow_up.run()

    def settle() -> None:
        if detector.settle():
            follow_up.run()

    periodics = [Periodic("reload rules", _RELOAD_INTERVAL, reload_rules)]
    if not drain:
        periodics += [
            Periodic("advance idle sources", _EACH_ROUND, advance_sources),
            Periodic("settle", _EACH_ROUND, settle),
            Periodic("follow revisions", _REVISIONS_INTERVAL, detect_revisions),
            _make_follow_up_task(follow_up),
        ]
    return periodics


def _make_follow_up_task(follow_up: AlertFollowUp) -> Periodic:
    """Follow up alerts at intervals; with many of them, in each round of the loop."""

    def run_once() -> None:
        if follow_up.run():
            task.run_again_after(_EACH_ROUND)

    task = Periodic("follow up alerts", _FOLLOW_UP_INTERVAL, run_once)
    return task


def _make_retention_task(retention: Retention, archive: ArchiveWriter) -> Periodic:
    """Run the retention at intervals; with much to delete, it continues in short steps."""

    def run_once() -> None:
        if retention.run_once(archive):
            task.run_again_after(_RETENTION_BATCH_INTERVAL)

    task = Periodic("retention", _RETENTION_INTERVAL, run_once, first_after=_RETENTION_INTERVAL)
    return task
