"""Statements in a Spark session, with limits of the processor time of Spark's JVM."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from archiver.spark import jvm_process
from archiver.threads import start_daemon
from recall.errors import ExecutorsAway, StatementTimeout
from recall.statements import Statement

_POLL_INTERVAL = 0.1  # seconds between checks of the running statement
_CANCEL_GRACE = 5.0  # seconds of processor time for a cancelled statement to end
_WALL_CLOCK_FACTOR = 10  # a statement may hang without computing: its limit in wall-clock time
_JOB_GROUP = "spark.jobGroup.id"
_JOB_PROPERTIES = (_JOB_GROUP, "spark.job.description", "spark.job.interruptOnCancel")

_TimeReading = tuple[float, float]  # processor time of the JVM and monotonic clock, in seconds


class SparkStatements:
    """Statements in a session that starts with the first of them. A `StatementEngine`.

    What fails raises Spark's errors. `on_stuck` is called with a message if a statement runs on
    after it was cancelled: cancellation may have no effect, as in a regular expression that
    backtracks forever. Without it, `run` and `limit_time` wait for such a statement.
    """

    def __init__(
        self,
        start_session: Callable[[], SparkSession],
        on_stuck: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._start_session = start_session
        self._on_stuck = on_stuck
        self._job_group = f"statements {id(self)}"
        self.has_started = False
        # By the monotonic clock, in seconds: when the session began to start, and had started.
        self._start_began_at: float | None = None
        self._start_ended_at: float | None = None

    @cached_property
    def _session(self) -> SparkSession:
        self.has_started = True
        self._start_ended_at = None
        self._start_began_at = time.monotonic()
        try:
            return self._start_session()
        except ExecutorsAway:
            self.has_started = False
            raise
        finally:
            self._start_ended_at = time.monotonic()

    @property
    def start_seconds(self) -> float:
        """How long the session has taken to start, so far if it is starting; 0 before that."""
        if self._start_began_at is None:
            return 0.0
        ended_at = self._start_ended_at
        return (time.monotonic() if ended_at is None else ended_at) - self._start_began_at

    def attach_thread(self) -> SparkSession:
        """The session. `interrupt` cancels jobs that this thread starts from now on."""
        self._session.sparkContext.setJobGroup(
            self._job_group, "statements", interruptOnCancel=True
        )
        return self._session

    def register(self, name: str, rows: pa.Table | DataFrame) -> None:
        """See `StatementEngine`."""
        if isinstance(rows, pa.Table):
            rows = self._session.createDataFrame(rows)
        rows.createOrReplaceTempView(name)

    def unregister(self, name: str) -> None:
        """See `StatementEngine`."""
        self._session.catalog.dropTempView(name)

    def run(self, statement: Statement, time_limit: float | None = None) -> pa.Table:
        """See `StatementEngine`."""
        if time_limit is not None:
            with self.limit_time(time_limit):
                return self._run(statement)
        with self._attached_thread():
            return self._run(statement)

    @contextmanager
    def _attached_thread(self) -> Iterator[None]:
        """Let `interrupt` cancel the jobs of this thread until the context ends."""
        context = self._session.sparkContext
        if context.getLocalProperty(_JOB_GROUP) == self._job_group:
            yield
            return
        earlier_properties = {name: context.getLocalProperty(name) for name in _JOB_PROPERTIES}
        self.attach_thread()
        try:
            yield
        finally:
            with suppress(Exception):  # the JVM may have exited
                for name, value in earlier_properties.items():
                    context.setLocalProperty(name, value)  # type: ignore[arg-type]

    def _run(self, statement: Statement) -> pa.Table:
        """The result. Each view is computed by the first part of the statement that reads it."""
        session = self._session
        with ExitStack() as cleanup:
            for name, value in statement.settings.items():
                cleanup.callback(_restore_setting, session, name, session.conf.get(name, None))
                session.conf.set(name, value)
            for name, rows in statement.tables.items():
                self.register(name, rows)
                cleanup.callback(_ignore_errors, self.unregister, name)
            for name, sql in statement.views.items():
                frame = session.sql(sql).persist()
                cleanup.callback(_ignore_errors, frame.unpersist)
                frame.createOrReplaceTempView(name)
                cleanup.callback(_ignore_errors, self.unregister, name)
            return session.sql(statement.text).toArrow()

    def interrupt(self) -> None:
        """See `StatementEngine`."""
        if "_session" in vars(self):  # it may be starting, or have failed to
            self._session.sparkContext.cancelJobGroup(self._job_group)

    @contextmanager
    def limit_time(self, limit: float) -> Iterator[None]:
        """Cancel what this thread runs in Spark after `limit` seconds of processor time.

        Raises `StatementTimeout` then; by that time its tasks have ended.
        """
        with self._attached_thread():
            watch = _Watch(limit, self.interrupt, self._on_stuck)
            watcher = start_daemon(watch.run, "spark time limit")
            try:
                yield
            except Exception as error:
                if watch.cancelled_at is None:
                    raise
                self._wait_for_tasks(watch)
                raise StatementTimeout(limit) from error
            finally:
                watch.finished.set()
                watcher.join()

    def _wait_for_tasks(self, watch: "_Watch") -> None:
        """Wait until the tasks of a cancelled job have ended: until then they occupy cores."""
        tracker = self._session.sparkContext._jsc.sc().statusTracker()
        while sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
            if watch.is_past_grace():
                self._on_stuck(watch.message)
                return
            time.sleep(_POLL_INTERVAL)


def _restore_setting(session: SparkSession, name: str, value: str | None) -> None:
    with suppress(Exception):  # the JVM may have exited
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)


def _ignore_errors(action: Callable[..., object], *arguments: object) -> None:
    """Run an action whose error must not replace that of a statement: the JVM may have exited."""
    with suppress(Exception):
        action(*arguments)


def is_over_limit(limit: float, cpu_seconds: float, wall_seconds: float) -> bool:
    """Whether a statement exceeds its limit of `limit` seconds of processor time."""
    return cpu_seconds > limit or wall_seconds > limit * _WALL_CLOCK_FACTOR


@dataclass
class _Watch:
    """Watches a statement in a thread of its own. `limit` in seconds of processor time."""

    limit: float
    interrupt: Callable[[], None]
    on_stuck: Callable[[str], None]
    cancelled_at: _TimeReading | None = None

    def __post_init__(self) -> None:
        self.finished = threading.Event()
        self._jvm: psutil.Process | None = None
        process = jvm_process()
        if process is not None:
            with suppress(psutil.Error):
                self._jvm = psutil.Process(process.pid)
        self._started_at = self._read_time()

    @property
    def message(self) -> str:
        return str(StatementTimeout(self.limit))

    def run(self) -> None:
        """Interrupt the statement at its limit; report it if it runs on."""
        while not self.finished.wait(_POLL_INTERVAL):
            if self.cancelled_at is not None:
                if self.is_past_grace() and not self.finished.is_set():
                    self.on_stuck(self.message)
                    return
                self.interrupt()  # a job that was still planned could not be cancelled
            elif is_over_limit(self.limit, *self._elapsed_since(self._started_at)):
                self.cancelled_at = self._read_time()
                self.interrupt()

    def is_past_grace(self) -> bool:
        """Whether the statement should have ended after it was cancelled."""
        if self.cancelled_at is None:
            return False
        return is_over_limit(_CANCEL_GRACE, *self._elapsed_since(self.cancelled_at))

    def _read_time(self) -> _TimeReading:
        return self._cpu_seconds(), time.monotonic()

    def _elapsed_since(self, start: _TimeReading) -> _TimeReading:
        cpu_start, clock_start = start
        cpu_seconds, clock = self._read_time()
        return cpu_seconds - cpu_start, clock - clock_start

    def _cpu_seconds(self) -> float:
        """Processor time that the JVM has used; 0 if it has exited."""
        if self._jvm is None:
            return 0.0
        try:
            times = self._jvm.cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)
