"""Spark sessions on one JVM, and whether a cluster has executors for it."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from archiver.spark import count_task_slots, has_stopped, open_session
from archiver.threads import start_daemon
from recall.errors import EngineLost, ExecutorsAway
from recall.sandbox import harden_session

_LOG = structlog.get_logger()
_CHECK_INTERVAL = 1.0  # seconds between looks at the executors of a cluster
_RESTART_DELAY = 10.0  # seconds after a start at which no master answered


class SparkSessions:
    """Spark starts with the first session: many workspaces never need it.

    On a cluster it starts in the background, and whoever needs it is told that executors are away
    until some have registered: what DuckDB can run is run in this process meanwhile. Elsewhere the
    executor is the JVM itself.
    """

    def __init__(self, *, master: str, warehouse: Path, settings: Mapping[str, str]) -> None:
        self._warehouse = warehouse
        self._master = master
        self._settings = settings
        self._is_cluster = not master.startswith("local")
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        self._stack = ExitStack()
        self._starter: threading.Thread | None = None
        self._failed_at: float | None = None
        self._checked_at = float("-inf")
        self._has_slots = False

    def create(self) -> SparkSession:
        """A session with temporary views of its own. Raises `ExecutorsAway`."""
        self.require_executors()
        return harden_session(self._start().newSession())

    def _start(self) -> SparkSession:
        with self._lock:
            if self._spark is None:
                session = open_session(
                    "moirae recall", self._warehouse, self._master, self._settings, "serve"
                )
                self._spark = self._stack.enter_context(session)
            return self._spark

    def require_executors(self) -> None:
        """Raise `ExecutorsAway` if nothing would run a job; start Spark if nobody has needed it."""
        if not self._is_cluster:
            return
        if self._spark is None and self._may_start():
            self._starter = start_daemon(self._start_in_background, "spark")
        if self._spark is None or self.are_executors_away():
            raise ExecutorsAway

    def _may_start(self) -> bool:
        if self._starter is not None and self._starter.is_alive():
            return False
        return self._failed_at is None or time.monotonic() - self._failed_at > _RESTART_DELAY

    def _start_in_background(self) -> None:
        try:
            self._start()
            self._failed_at = None
        except (PySparkException, Py4JError) as error:
            self._failed_at = time.monotonic()
            reason = str(error).partition("\n")[0]
            _LOG.warning("Spark does not start", action="spark_start_failed", error=reason)

    def are_executors_away(self) -> bool:
        """Whether nothing runs the jobs of a cluster, as far as this process needs it.

        Raises `EngineLost` if Spark has stopped, as after a minute without a master.
        """
        if not self._is_cluster:
            return False
        if self._spark is None:
            return self._starter is not None
        if time.monotonic() - self._checked_at > _CHECK_INTERVAL:
            context = self._spark.sparkContext
            if has_stopped(context):
                raise EngineLost
            self._has_slots = count_task_slots(context) > 0
            self._checked_at = time.monotonic()
        return not self._has_slots

    def stop(self) -> None:
        """Stop the JVM if it was started."""
        with self._lock:
            self._stack.close()
