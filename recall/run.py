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

from archiver.engine.session import jvm, start_session
from archiver.errors import ArchiverError
from archiver.place import Root
from archiver.reader import Reader
from archiver.schema import StreamSchema
from recall.corpora import Corpora
from recall.derived import Derived
from recall.engines.chosen import Choice, Engines
from recall.engines.cost import Costs
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine, warm_up
from recall.gate import guarded
from recall.keys import Keys
from recall.ledger import Ledger, Terms
from recall.manager.loop import Manager
from recall.manager.preparing import Background
from recall.similarity.warm_up import warm_up as warm_up_search

_LOG = structlog.get_logger()

# Live work goes first: less of the processor for this process and its JVM, and these are the ones to go when memory
# ends.
_NICENESS, _OOM_SCORE = 10, "500"
# Seconds: for Spark to end in order; between two looks at what was archived, and after one that failed.
_ENDING, _FOLLOW, _RETRY = 5.0, 0.2, 2.0
# A chunk is large where a micro-batch is small: here compiling a whole stage pays.
_SETTINGS = {"spark.sql.codegen.wholeStage": "true", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True)
class Place:
    """What of a workspace the recall process needs. `relations` gives all versions of a relation, as a table."""

    root: Root
    schemas: Sequence[StreamSchema]
    relations: Callable[[str], pa.Table]
    master: str
    warehouse: Path
    conf: Mapping[str, str]
    history_queries: tuple[int, int]
    """How many may run at once: at least, at most."""
    query_timeout: float
    """Seconds, after which a history query is stuck."""
    engine: Choice
    terms: Terms
    present: Callable[[], Collection[int]]
    """The chunks that are present now."""
    present_memory: int
    """Bytes of their rows to keep in memory."""
    spark_at_once: bool
    """Whether a question that only Spark can answer is to be expected."""
    connect: Callable[[], Connection[Any]]
    """To the control plane, for a worker."""
    background: Background
    """What is to be done with history beside recalls."""


def run(place: Place, connection: Connection[Any], stop: threading.Event, beat: Callable[[], None]) -> None:
    """Serve recalls until `stop` is set."""
    go_first_when_memory_ends()
    sessions = _Sessions(place)
    reader, kept, costs = Reader(place.root, place.schemas, place.present_memory), Kept(), Costs()
    threading.Thread(target=_follow, args=(place, reader, stop), daemon=True, name="present").start()
    engines = [_engines(place, sessions, reader, kept, costs) for _ in range(place.history_queries[1])]
    if place.spark_at_once:
        threading.Thread(target=_warm, args=(place, sessions, reader), daemon=True, name="spark").start()
    else:
        step_aside(os.getpid())
    # Loads what was compiled when this was installed, before somebody waits for it.
    threading.Thread(target=warm_up_search, daemon=True, name="similarity").start()
    corpora = Corpora(connection, place.root)
    ledger = Ledger(connection, Ledger.lease(connection), place.terms)
    keys, least = Keys(Reader(place.root, place.schemas)), place.history_queries[0]
    manager = Manager(
        connection, ledger, corpora, keys, engines, place.query_timeout, least, background=place.background
    )
    manager.run(stop, beat)
    # A query that is under way may hold this up; the next process need not wait for it.
    ending = threading.Thread(target=sessions.stop, daemon=True)
    ending.start()
    ending.join(_ENDING)


def _follow(place: Place, reader: Reader, stop: threading.Event) -> None:
    """Have what was just archived at hand before anybody asks for it."""
    while not stop.wait(_FOLLOW):
        try:
            reader.follow(place.present())
        except (ArchiverError, DeltaError, OSError, psycopg.Error) as error:
            _LOG.warning("the present is not followed", action="follow_failed", error=str(error))
            stop.wait(_RETRY)


class _Sessions:
    """Spark sessions on one JVM, which is started with the first: many workspaces never need it here."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None

    def new(self) -> SparkSession:
        """A session with views of its own."""
        with self._lock:
            if self._spark is None:
                place = self._place
                conf = {**_SETTINGS, **place.conf}
                self._spark = start_session("moirae recall", place.master, place.warehouse, conf)
            return guarded(self._spark.newSession())

    def stop(self) -> None:
        """End the JVM, if there is one."""
        with self._lock:
            if self._spark is not None:
                self._spark.stop()


def _warm(place: Place, sessions: _Sessions, reader: Reader) -> None:
    """Start Spark, then step aside: a start that gets the processor's leavings takes minutes while live is busy."""
    try:
        with suppress(PySparkException, Py4JError):
            for schema in place.schemas[:1]:
                warm_up(SparkEngine(sessions.new, reader, place.relations), schema)
    finally:
        process = jvm()
        step_aside(os.getpid(), *([] if process is None else [process.pid]))


def _engines(place: Place, sessions: _Sessions, reader: Reader, kept: Kept, costs: Costs) -> Engines:
    derived = Derived(place.connect(), place.root, reader)
    local = None if place.engine == "spark" else LocalEngine(derived.reader)
    spark = SparkEngine(sessions.new, derived.reader, place.relations)
    return Engines(spark, local, kept, costs, place.engine, derived)


def go_first_when_memory_ends() -> None:
    """Of all processes, this one and its JVM are to be ended when memory ends."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def step_aside(*processes: int) -> None:
    """Make processes and what they start give way to live ones; one of them is this."""
    for process in processes:
        for thread in _threads(process):
            with suppress(OSError):  # it may have ended
                os.setpriority(os.PRIO_PROCESS, thread, _NICENESS)
    if os.getsid(0) == os.getpid():
        # Where Linux shares processors out by session, that weighs within a session only: the session steps aside too.
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(_NICENESS))


def _threads(process: int) -> list[int]:
    """Linux has a priority for each thread; elsewhere it is the process's."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except FileNotFoundError:
        return [process]
