"""Back-tests that clients of the server have started, run by a child of a recall process.

The child is this module, started as a program with a lower priority: what it evaluates cannot delay
an alert, and its memory is its own. It ends some time after its last back-test.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cache
from pathlib import Path

import orjson
import structlog
from pyspark.sql import SparkSession

import sql
from archiver.priority import lower_priority, set_session_niceness
from archiver.spark import open_session
from archiver.threads import start_daemon
from moirae.config import Settings, build_spark_settings, load_settings_from_environment
from moirae.errors import MoiraeError
from moirae.runtime import connect_database, logs, watch_parent
from moirae.services import to_json
from moirae.services.backtest_runs import run_backtest
from moirae.services.operations.backtests import BacktestBody
from recall.statements import WORKER_DAEMON
from sql.processes import BACKTEST_CHANNEL, SignalListener
from sql.rules import BacktestGateway, ClaimedBacktest

_LOG = structlog.get_logger()

_POLL_INTERVAL = 0.5  # seconds between two looks for signals and ends of processes
_BEAT_INTERVAL = 2.0  # seconds between two signs of life
_LEASE = 30.0  # seconds without a sign of life after which a back-test is run again
_MAX_ATTEMPTS = 2  # processes that may end by one back-test
_IDLE_TIMEOUT = 300.0  # seconds without a back-test after which the child ends
_STORE_INTERVAL = 0.5  # seconds between two results that are stored
_NICENESS = 15  # recalls come first, and alerts before them
# Of its session, which counts instead where Linux groups processes by session. Somebody waits for a
# start and a check of what they type.
_CHECK_NICENESS = 5
_EVALUATION_NICENESS = 19
_TERMINATE_TIMEOUT = 10.0  # seconds
# Seconds for a child to store what it has found. A check is short, and its session stays warm.
_CANCEL_GRACE = 3.0
_CHECK_GRACE = 30.0


class BacktestSupervisor:
    """Starts a child while there are back-tests, in a thread of its own."""

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        self._settings = settings
        self._stop = stop
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Look for back-tests until `stop` is set."""
        self._thread = start_daemon(self._run, "back-tests")

    def shut_down(self) -> None:
        """End the child, if there is one."""
        self._stop.set()
        self._thread.join(_TERMINATE_TIMEOUT)

    def _run(self) -> None:
        try:
            with (
                connect_database(self._settings, "back-tests look") as connection,
                closing(SignalListener(connection, BACKTEST_CHANNEL)) as listener,
            ):
                self._start_children(BacktestGateway(connection), listener)
        finally:
            self._end_child()

    def _start_children(self, gateway: BacktestGateway, listener: SignalListener) -> None:
        """Ask for back-tests when a signal came, a child has ended, or a lease may have."""
        is_due = True
        asked_at = 0.0
        while not self._stop.is_set():
            if is_due and self._is_child_gone():
                is_due = gateway.has_work(_LEASE)
                asked_at = time.monotonic()
                if is_due:
                    self._child = _start_child(self._settings)
            is_signalled = listener.wait(_POLL_INTERVAL)
            is_due |= is_signalled or time.monotonic() - asked_at > _LEASE

    def _is_child_gone(self) -> bool:
        return self._child is None or self._child.poll() is not None

    def _end_child(self) -> None:
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(_TERMINATE_TIMEOUT / 2)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # with its JVM
            child.wait()


def _start_child(settings: Settings) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "moirae.backtest_process",
        str(settings.file),
        str(os.getpid()),
    ]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)


class _Watch:
    """Shows signs of life for a back-test, and learns whether it is cancelled.

    A step that goes on after that, such as a day with many rows, is ended with its process: another
    child is started for the next back-test.
    """

    def __init__(self, settings: Settings, claimed: ClaimedBacktest) -> None:
        self._settings = settings
        self._claimed = claimed
        self._ended = threading.Event()
        self.is_cancelled = False
        start_daemon(self._run, "back-test watch")

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        with (
            connect_database(self._settings, "back-test watch") as connection,
            closing(SignalListener(connection, BACKTEST_CHANNEL)) as listener,
        ):
            gateway = BacktestGateway(connection)
            last_beat = 0.0
            while not self._ended.is_set():
                is_due = time.monotonic() - last_beat >= _BEAT_INTERVAL
                if not is_due and not listener.wait(_POLL_INTERVAL):
                    continue
                last_beat = time.monotonic()
                if gateway.beat(self._claimed):
                    continue
                self.is_cancelled = True
                is_check = bool(self._claimed.request.get("check_only"))
                if not self._ended.wait(_CHECK_GRACE if is_check else _CANCEL_GRACE):
                    gateway.finish(self._claimed, "cancelled")
                    os.killpg(0, signal.SIGKILL)  # with its JVM: Spark's tasks end at once


class BacktestRunner:
    """Runs back-tests one after the other, on one connection and in one session of Spark."""

    def __init__(
        self,
        settings: Settings,
        connection: sql.Connection,
        start_spark: Callable[[], SparkSession],
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._gateway = BacktestGateway(connection)
        self._start_spark = start_spark

    def run_next(self) -> bool:
        """Run the oldest back-test that waits. Returns whether there was one."""
        claimed = self._gateway.claim(_LEASE)
        if claimed is None:
            return False
        if claimed.attempts > _MAX_ATTEMPTS:
            message = "its process ended, perhaps out of memory: evaluate less with `last`"
            self._gateway.finish(claimed, "failed", message)
            return True
        watch = _Watch(self._settings, claimed)
        try:
            is_complete = self._run(claimed, watch)
        except Exception as error:  # of a rule, a query or the archive: the next one may succeed
            message = str(error).strip() or type(error).__name__
            if not isinstance(error, MoiraeError):
                message = message.partition("\n")[0]
                _LOG.exception("back-test failed", action="backtest_failed", id=str(claimed.id))
            self._gateway.finish(claimed, "failed", message)
        else:
            self._gateway.finish(claimed, "done" if is_complete else "cancelled")
        finally:
            watch.end()
        return True

    def _run(self, claimed: ClaimedBacktest, watch: _Watch) -> bool:
        """Returns whether it was evaluated to its end."""
        body = BacktestBody.model_validate(claimed.request)
        set_session_niceness(_CHECK_NICENESS if body.check_only else _EVALUATION_NICENESS)
        stored_at = 0.0
        for progress in run_backtest(self._settings, self._connection, self._start_spark, body):
            now = time.monotonic()
            is_due = stored_at == 0.0 or now - stored_at >= _STORE_INTERVAL
            if is_due or progress.share >= 1 or watch.is_cancelled:
                result = orjson.loads(to_json(progress.describe()))
                self._gateway.record(claimed, progress.share, result)
                stored_at = now
            if watch.is_cancelled and progress.share < 1:
                return False
        return True


def run_child(settings: Settings, parent_pid: int) -> None:
    """Run back-tests until none came for some time, or the parent ends."""
    stop = threading.Event()
    watch_parent(parent_pid, stop, _TERMINATE_TIMEOUT)
    warehouse = Path(settings.home) / "warehouse-backtest"
    conf = {"spark.python.daemon.module": WORKER_DAEMON, **build_spark_settings(settings, "recall")}
    with (
        connect_database(settings, "back-tests") as connection,
        closing(SignalListener(connection, BACKTEST_CHANNEL)) as listener,
        ExitStack() as stack,
    ):

        @cache
        def start_spark() -> SparkSession:
            session = open_session("moirae back-tests", warehouse, settings.spark.master, conf)
            return stack.enter_context(session)

        runner = BacktestRunner(settings, connection, start_spark)
        last_run = asked_at = time.monotonic()
        is_due = True
        while time.monotonic() - last_run < _IDLE_TIMEOUT and not stop.is_set():
            if is_due:
                asked_at = time.monotonic()
                is_due = runner.run_next()
                if is_due:
                    last_run = time.monotonic()
                    continue
            is_due = listener.wait(_POLL_INTERVAL) or time.monotonic() - asked_at > _LEASE


def main() -> None:
    """Run the back-tests of the workspace whose file is the first argument."""
    lower_priority(_NICENESS)
    set_session_niceness(_CHECK_NICENESS)
    logs.configure_logging()
    file, parent_pid = sys.argv[1:]
    run_child(load_settings_from_environment(Path(file)), int(parent_pid))


if __name__ == "__main__":
    main()
