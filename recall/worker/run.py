"""The recall process: one workspace's Recall Manager, out of the way of what is live."""

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError
from psycopg import Connection
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from archiver.delta import StreamSchema
from archiver.errors import ArchiverError
from archiver.read import Reader
from archiver.spark import jvm_process, start_session
from archiver.storage import StorageRoot
from recall.corpora import Corpora
from recall.engines import (
    DerivedStreamReader,
    EngineCosts,
    EngineRouter,
    EngineSetting,
    LocalEngine,
    PartialCache,
    SparkEngine,
    warm_up_spark,
)
from recall.ledger import Ledger, SchedulingPolicy
from recall.sandbox import harden_session
from recall.similarity import compile_kernels as warm_up_search
from recall.worker.key_counts import KeyCounts
from recall.worker.manager import RecallManager
from recall.worker.preparation import BackgroundWork

_LOG = structlog.get_logger()

# Live work goes first: less of the processor for this process and its JVM, and these are the ones to go when memory
# ends.
_NICENESS, _OOM_SCORE = 10, "500"
# Seconds: for Spark to end in order; between two looks at what was archived, and after one that failed.
_SHUTDOWN_TIMEOUT, _FOLLOW_INTERVAL, _RETRY_DELAY = 5.0, 0.2, 2.0
# A chunk is large where a micro-batch is small: here compiling a whole stage pays.
_SPARK_SETTINGS = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True)
class RecallConfig:
    """What of a workspace the recall process needs. `relations` gives all versions of a relation, as a table."""

    root: StorageRoot
    schemas: Sequence[StreamSchema]
    relations: Callable[[str], pa.Table]
    master: str
    warehouse: Path
    conf: Mapping[str, str]
    history_queries: tuple[int, int]
    """How many may run at once: at least, at most."""
    query_timeout: float
    """Seconds, after which a history query is stuck."""
    engine: EngineSetting
    policy: SchedulingPolicy
    present_chunks: Callable[[], Collection[int]]
    """The chunks that are present now."""
    present_memory_bytes: int
    """Bytes of their rows to keep in memory."""
    start_spark_eagerly: bool
    """Whether a question that only Spark can answer is to be expected."""
    connect: Callable[[], Connection[Any]]
    """To the control plane, for a worker."""
    background: BackgroundWork
    """What is to be done with history beside recalls."""


def run_worker(
    config: RecallConfig,
    connection: Connection[Any],
    stop: threading.Event,
    heartbeat: Callable[[], None],
) -> None:
    """Serve recalls until `stop` is set."""
    prefer_for_oom_kill()
    sessions = _SparkSessions(config)
    reader, kept, costs = (
        Reader(config.root, config.schemas, config.present_memory_bytes),
        PartialCache(),
        EngineCosts(),
    )
    threading.Thread(
        target=_follow_present, args=(config, reader, stop), daemon=True, name="present"
    ).start()
    engines = [
        _create_engines(config, sessions, reader, kept, costs)
        for _ in range(config.history_queries[1])
    ]
    if config.start_spark_eagerly:
        threading.Thread(
            target=_warm_up_spark, args=(config, sessions, reader), daemon=True, name="spark"
        ).start()
    else:
        lower_priority(os.getpid())
    # Loads what was compiled when this was installed, before somebody waits for it.
    threading.Thread(target=warm_up_search, daemon=True, name="similarity").start()
    corpora = Corpora(connection, config.root)
    ledger = Ledger(connection, Ledger.acquire_lease(connection), config.policy)
    keys, least = KeyCounts(Reader(config.root, config.schemas)), config.history_queries[0]
    manager = RecallManager(
        connection,
        ledger,
        corpora,
        keys,
        engines,
        config.query_timeout,
        least,
        background=config.background,
    )
    manager.run(stop, heartbeat)
    # A query that is under way may hold this up; the next process need not wait for it.
    ending = threading.Thread(target=sessions.stop, daemon=True)
    ending.start()
    ending.join(_SHUTDOWN_TIMEOUT)


def _follow_present(place: RecallConfig, reader: Reader, stop: threading.Event) -> None:
    """Have what was just archived at hand before anybody asks for it."""
    while not stop.wait(_FOLLOW_INTERVAL):
        try:
            reader.refresh_present(place.present_chunks())
        except (ArchiverError, DeltaError, OSError, psycopg.Error) as error:
            _LOG.warning("the present is not followed", action="follow_failed", error=str(error))
            stop.wait(_RETRY_DELAY)


class _SparkSessions:
    """Spark sessions on one JVM, which is started with the first: many workspaces never need it here."""

    def __init__(self, config: RecallConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None

    def create(self) -> SparkSession:
        """A session with views of its own."""
        with self._lock:
            if self._spark is None:
                place = self._config
                conf = {**_SPARK_SETTINGS, **place.conf}
                self._spark = start_session("moirae recall", place.master, place.warehouse, conf)
            return harden_session(self._spark.newSession())

    def stop(self) -> None:
        """End the JVM, if there is one."""
        with self._lock:
            if self._spark is not None:
                self._spark.stop()


def _warm_up_spark(place: RecallConfig, sessions: _SparkSessions, reader: Reader) -> None:
    """Start Spark, then step aside: a start that gets the processor's leavings takes minutes while live is busy."""
    try:
        with suppress(PySparkException, Py4JError):
            for schema in place.schemas[:1]:
                warm_up_spark(SparkEngine(sessions.create, reader, place.relations), schema)
    finally:
        process = jvm_process()
        lower_priority(os.getpid(), *([] if process is None else [process.pid]))


def _create_engines(
    place: RecallConfig,
    sessions: _SparkSessions,
    reader: Reader,
    kept: PartialCache,
    costs: EngineCosts,
) -> EngineRouter:
    derived = DerivedStreamReader(place.connect(), place.root, reader)
    local = None if place.engine == "spark" else LocalEngine(derived.reader)
    spark = SparkEngine(sessions.create, derived.reader, place.relations)
    return EngineRouter(spark, local, kept, costs, place.engine, derived)


def prefer_for_oom_kill() -> None:
    """Of all processes, this one and its JVM are to be ended when memory ends."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def lower_priority(*pids: int) -> None:
    """Make processes and what they start give way to live ones; one of them is this."""
    for process in pids:
        for thread in _thread_ids(process):
            with suppress(OSError):  # it may have ended
                os.setpriority(os.PRIO_PROCESS, thread, _NICENESS)
    if os.getsid(0) == os.getpid():
        # Where Linux shares processors out by session, that weighs within a session only: the session steps aside too.
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(_NICENESS))


def _thread_ids(process: int) -> list[int]:
    """Linux has a priority for each thread; elsewhere it is the process's."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except FileNotFoundError:
        return [process]
