"""The recall process: builds the engines of a workspace and runs its Recall Manager.

It has a lower priority than the live process.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import sql
from archiver.delta import StreamSchema
from archiver.errors import ArchiverError
from archiver.periodic import Timer
from archiver.priority import lower_priority
from archiver.read import AppendedRows, Reader, SnapshotReader
from archiver.spark import jvm_process
from archiver.storage import StorageRoot
from archiver.threads import start_daemon, start_thread
from archiver.times import duration_to_micros
from recall.corpora import Corpora
from recall.corpus_parts import PartHolder
from recall.engines import LocalEngine, SparkEngine, WideScanEngine
from recall.engines.derived_streams import DerivedStreamReader
from recall.engines.routing import (
    EngineChoice,
    EngineCosts,
    EngineRouter,
    EngineSetting,
    PartialCache,
)
from recall.ledger import Ledger, RevisionArchive, SchedulingPolicy
from recall.similarity import compile_kernels
from recall.stages import StageConfig, StageEvaluator, StageRunner
from recall.statements import WORKER_DAEMON
from recall.summaries import SummaryBuilder, SummaryStore, WantedShapes, open_summaries
from recall.worker.key_counts import KeyCounts
from recall.worker.live_rows import LiveEngines
from recall.worker.manager import ManagerConfig, RecallManager
from recall.worker.metrics import RecallMetrics
from recall.worker.preparation import BackgroundWork
from recall.worker.spark_sessions import SparkSessions

_LOG = structlog.get_logger()

# Live processes come first: this process and its JVM get less CPU time, and the kernel kills them
# first when memory runs out.
_NICENESS = 10
_OOM_SCORE = "500"
# Limit for an orderly shutdown of Spark.
_SHUTDOWN_TIMEOUT = 5.0  # seconds
# Between two reads of newly archived rows, without new ones for some time, and after a read that failed.
_PRESENT_REFRESH_INTERVAL = 0.2  # seconds
_IDLE_REFRESH_INTERVAL = 1.0  # seconds
_IDLE_AFTER = 10.0  # seconds
_RETRY_DELAY = 2.0  # seconds
# Chunks are large compared with micro-batches: whole-stage compilation pays off.
_SPARK_SETTINGS = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.shuffle.partitions": "1",
    "spark.python.daemon.module": WORKER_DAEMON,
}


@dataclass(frozen=True, kw_only=True)
class RecallConfig:
    """The configuration of a recall process."""

    root: StorageRoot
    """Where the archive is."""
    schemas: Sequence[StreamSchema]
    relations: Callable[[str], pa.Table]
    """Returns all versions of a relation."""
    unversioned: frozenset[str]
    """Relations whose rows may change, so that what a query has read of them is recorded."""
    spark_master: str
    spark_settings: Mapping[str, str]
    warehouse: Path
    """Spark's warehouse directory."""
    min_history_queries: int
    """Concurrent history queries on a busy machine."""
    max_history_queries: int
    """Concurrent history queries on an idle machine."""
    query_timeout: float
    """Seconds after which a history query is cancelled."""
    engine: EngineSetting
    policy: SchedulingPolicy
    present_chunks: Callable[[], Collection[int]]
    """Returns the chunks that are in the state `present`."""
    present_memory_bytes: int
    """How much of their rows is cached in memory."""
    start_spark_eagerly: bool
    """Whether a question that only Spark can run is likely."""
    connect: Callable[[], sql.Connection]
    """Opens a database connection for a worker."""
    background: BackgroundWork | None
    """Work on history apart from recalls; None: there is none."""
    metrics: RecallMetrics
    archive_history: timedelta
    """Wall-clock time for which superseded versions of archived tables stay readable."""
    event_timeout: timedelta
    """Wall-clock time after which an event without progress ends."""
    wanted_summaries: WantedShapes
    """Returns the summaries that rules and streams want; see `SummaryBuilder`."""
    corpus_memory_bytes: int | None
    """How much of corpora is in memory; None: each corpus that is used, as a whole."""
    name: str
    """The name of the process, for operators."""
    stage_rows: int
    """Rows of the inputs of a stage for one event beyond which it fails."""


def run_worker(
    config: RecallConfig,
    connection: sql.Connection,
    stop: threading.Event,
    heartbeat: Callable[[str], None],
) -> None:
    """Serve recalls until `stop` is set. `heartbeat` is called often, with the activity."""
    prefer_for_oom_kill()
    sessions = _open_sessions(config)
    reader = Reader(config.root, config.schemas, config.present_memory_bytes)
    start_daemon(lambda: _follow_present(config, reader, stop), "present")
    partial_cache = PartialCache()
    costs = EngineCosts()
    engines = [
        _create_engines(config, sessions, reader, partial_cache, costs)
        for _ in range(config.max_history_queries)
    ]
    if config.start_spark_eagerly:
        start_daemon(lambda: _warm_up_spark(config, sessions, reader), "spark")
    else:
        lower_priority(_NICENESS)
    # Loads the kernels that were compiled at installation, before the first comparison needs them.
    start_daemon(compile_kernels, "similarity")
    runner = _create_runner(config, sessions, reader)
    stages = start_daemon(lambda: runner.run(stop), "stages")
    archive = RevisionArchive(config.connect(), config.root, config.archive_history.total_seconds())
    archiving = start_daemon(lambda: archive.run(stop), "revisions")
    summaries = SummaryStore(config.root, Reader(config.root, config.schemas))
    builder = SummaryBuilder(
        config.connect(),
        config.root,
        summaries,
        list_wanted=config.wanted_summaries,
        history=config.archive_history.total_seconds(),
    )
    summarising = start_daemon(lambda: builder.run(stop), "summaries")
    lease = Ledger.acquire_lease(connection)
    parts: PartHolder | None = None
    if config.corpus_memory_bytes is not None:
        parts = PartHolder(
            connection, lease=lease, max_bytes=config.corpus_memory_bytes, name=config.name
        )
    manager = RecallManager(
        connection,
        Ledger(connection, lease, config.policy),
        Corpora(connection, config.root, parts),
        key_counts=KeyCounts(Reader(config.root, config.schemas)),
        config=ManagerConfig(
            engines=engines,
            query_timeout=config.query_timeout,
            min_queries=config.min_history_queries,
            background=config.background,
            metrics=config.metrics,
            event_timeout=config.event_timeout,
            on_answers=runner.wake,
            parts=parts,
            live_engines=_create_live_engines(config, sessions),
            summaries=summaries,
        ),
    )
    manager.run(stop, heartbeat)
    runner.wake()
    stages.join(_SHUTDOWN_TIMEOUT)
    archiving.join(_SHUTDOWN_TIMEOUT)
    summarising.join(_SHUTDOWN_TIMEOUT)
    # A running query may delay this; the next process need not wait for it.
    _stop_spark(sessions)


def run_task(
    config: RecallConfig, connection: sql.Connection, task: UUID, stop: threading.Event
) -> None:
    """Work on one task until `stop` is set, where no recall process runs.

    It takes one history query at a time, and Spark is started only if the task needs it. Summaries
    answer what an earlier recall process has computed.
    """
    sessions = _open_sessions(config)
    reader = Reader(config.root, config.schemas)
    engines = _create_engines(config, sessions, reader, PartialCache(), EngineCosts())
    manager = RecallManager(
        connection,
        Ledger(connection, Ledger.acquire_lease(connection), config.policy),
        Corpora(connection, config.root),
        key_counts=KeyCounts(reader),
        config=ManagerConfig(
            engines=[engines],
            query_timeout=config.query_timeout,
            live_engines=_create_live_engines(config, sessions),
            summaries=_open_summaries(config, connection),
            only_task=task,
        ),
    )
    manager.run(stop, lambda _: None)
    _stop_spark(sessions)


def _open_summaries(config: RecallConfig, connection: sql.Connection) -> SummaryStore | None:
    """None: they cannot be read, and rows are read instead."""
    reader = Reader(config.root, config.schemas)
    try:
        return open_summaries(connection, config.root, reader, config.wanted_summaries())
    except (ArchiverError, DeltaError, OSError) as error:
        _LOG.warning("summaries not read", action="summaries_failed", error=str(error))
        return None


def _stop_spark(sessions: SparkSessions) -> None:
    """Stop Spark, or give up after a timeout: the process ends, and its JVM with it."""
    with suppress(Exception):
        start_thread(sessions.stop, "spark shutdown").result(_SHUTDOWN_TIMEOUT)


def _follow_present(config: RecallConfig, reader: Reader, stop: threading.Event) -> None:
    """Load newly archived rows into memory before a question needs them.

    Any failure is logged once and tried again: only the recalls of these rows need them.
    """
    last_error = ""
    idle = Timer(_IDLE_AFTER)
    while not stop.wait(_IDLE_REFRESH_INTERVAL if idle.is_due() else _PRESENT_REFRESH_INTERVAL):
        try:
            if reader.refresh_present(config.present_chunks()):
                idle.restart()
            last_error = ""
        except Exception as error:
            if str(error) != last_error:
                last_error = str(error)
                _LOG.warning(
                    "present rows not refreshed", action="present_refresh_failed", error=last_error
                )
            stop.wait(_RETRY_DELAY)


def _open_sessions(config: RecallConfig) -> SparkSessions:
    return SparkSessions(
        master=config.spark_master,
        warehouse=config.warehouse,
        settings={**_SPARK_SETTINGS, **config.spark_settings},
    )


def _warm_up_spark(config: RecallConfig, sessions: SparkSessions, reader: Reader) -> None:
    """Start Spark, then lower the priority of this process and the JVM.

    At low priority the start would take minutes while live processes are busy.
    """
    try:
        with suppress(PySparkException, Py4JError):
            for schema in config.schemas[:1]:
                SparkEngine(sessions.create, reader, config.relations).warm_up(schema)
    finally:
        process = jvm_process()
        if process is not None:
            lower_priority(_NICENESS, process.pid)
        else:
            lower_priority(_NICENESS)


def _create_engines(
    config: RecallConfig,
    sessions: SparkSessions,
    reader: Reader,
    partial_cache: PartialCache,
    costs: EngineCosts,
) -> EngineRouter:
    derived = DerivedStreamReader(config.connect(), config.root, reader)
    spark = SparkEngine(
        sessions.create,
        derived.reader,
        config.relations,
        sessions.require_executors,
        config.unversioned,
    )
    router = EngineRouter(
        spark=spark,
        local=LocalEngine(derived.reader),
        partial_cache=partial_cache,
        costs=costs,
        setting=config.engine,
        derived=derived,
        wide_scans=WideScanEngine(spark.jobs, derived.reader, config.query_timeout),
    )
    router.are_executors_away = sessions.are_executors_away
    return router


def _create_runner(config: RecallConfig, sessions: SparkSessions, reader: Reader) -> StageRunner:
    snapshot_reader = SnapshotReader(reader)
    evaluator = StageEvaluator(
        snapshot_reader,
        relations=config.relations,
        session=sessions.create,
        choice=EngineChoice(config.engine),
        max_rows=config.stage_rows,
    )
    stage_config = StageConfig(
        stream_columns={schema.name: schema.query_columns for schema in config.schemas},
        lateness={schema.name: duration_to_micros(schema.lateness) for schema in config.schemas},
    )
    return StageRunner(config.connect(), evaluator, stage_config)


def _create_live_engines(config: RecallConfig, sessions: SparkSessions) -> LiveEngines:
    appended_rows = AppendedRows(config.root, config.schemas)
    reader = SnapshotReader(appended_rows)
    router = EngineRouter(
        spark=SparkEngine(sessions.create, reader, config.relations, sessions.require_executors),
        local=LocalEngine(reader),
        # No cache: rows in memory are no files, by which it knows what was read.
        partial_cache=PartialCache(0),
        setting=config.engine,
    )
    router.are_executors_away = sessions.are_executors_away
    return LiveEngines(router, appended_rows)


def prefer_for_oom_kill() -> None:
    """Make the kernel kill this process and its JVM first when memory runs out."""
    with suppress(OSError):
        # psutil does not write it.
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
