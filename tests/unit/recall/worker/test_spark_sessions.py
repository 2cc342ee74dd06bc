"""Spark on a cluster starts in the background, and is not used while it has no executors."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError

from recall.errors import EngineLost, ExecutorsAway
from recall.worker import spark_sessions
from recall.worker.spark_sessions import SparkSessions


class _Spark:
    """A Spark whose start waits until it may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_start = threading.Event()
        self.may_start.set()
        self.error: Exception | None = None
        self.starts = 0
        self.slots = 2
        self.has_stopped = False
        monkeypatch.setattr(spark_sessions, "open_session", self._open)
        monkeypatch.setattr(spark_sessions, "count_task_slots", lambda _: self.slots)
        monkeypatch.setattr(spark_sessions, "has_stopped", lambda _: self.has_stopped)
        monkeypatch.setattr(spark_sessions, "harden_session", lambda session: session)
        monkeypatch.setattr(spark_sessions, "_CHECK_INTERVAL", 0.0)

    @contextmanager
    def _open(self, *_: Any) -> Iterator[Any]:
        self.starts += 1
        self.may_start.wait()
        if self.error is not None:
            raise self.error
        yield Mock()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> _Spark:
    return _Spark(monkeypatch)


def _sessions(master: str = "spark://host:7077") -> SparkSessions:
    return SparkSessions(master=master, warehouse=Path("warehouse"), settings={})


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_local_spark_starts_with_the_first_session(spark: _Spark) -> None:
    sessions = _sessions("local[2]")
    assert not sessions.are_executors_away()
    sessions.create()
    sessions.create()
    assert spark.starts == 1


def test_cluster_is_away_until_executors_have_registered(spark: _Spark) -> None:
    sessions = _sessions()
    assert not sessions.are_executors_away()  # nobody has needed them
    spark.may_start.clear()
    spark.slots = 0
    for _ in range(2):
        with pytest.raises(ExecutorsAway):
            sessions.create()
        assert sessions.are_executors_away()
    spark.may_start.set()
    _wait(lambda: sessions._spark is not None)
    assert sessions.are_executors_away()
    spark.slots = 1
    assert not sessions.are_executors_away()
    sessions.create()
    spark.slots = 0
    with pytest.raises(ExecutorsAway):
        sessions.require_executors()
    assert spark.starts == 1


def test_start_without_a_master_is_tried_again(
    spark: _Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sessions, "_RESTART_DELAY", 0.0)
    spark.error = Py4JError("all masters are unresponsive")
    sessions = _sessions()

    def has_executors() -> bool:
        try:
            sessions.require_executors()
        except ExecutorsAway:
            return False
        return True

    _wait(lambda: not has_executors() and spark.starts > 1)
    assert sessions.are_executors_away()
    spark.error = None
    _wait(has_executors)


def test_application_that_has_ended_ends_the_process(spark: _Spark) -> None:
    sessions = _sessions()
    with suppress(ExecutorsAway):
        sessions.create()
    _wait(lambda: sessions._spark is not None)
    spark.has_stopped = True
    with pytest.raises(EngineLost):
        sessions.are_executors_away()
