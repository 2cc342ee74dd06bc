"""Errors in one line, and the activity of workers."""

import threading
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from recall.errors import ExecutorsAway
from recall.worker import query_slots
from recall.worker.query_slots import QuerySlot, Workers, summarise_error


def _engines() -> SimpleNamespace:
    spark = SimpleNamespace(start_seconds=0.0)
    return SimpleNamespace(
        shared_scan_stream=None,
        spark=spark,
        cancel=lambda: None,
        are_executors_away=lambda: False,
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("\n first line\nsecond line"), "first line"),
        (ValueError(""), "ValueError"),
        (KeyError("host"), "KeyError: 'host'"),
        (
            RuntimeError("trace\n[DIVIDE_BY_ZERO] Division by zero.\n at x"),
            "[DIVIDE_BY_ZERO] Division by zero.",
        ),
        (ValueError("x" * 2000), "x" * 1000),
    ],
)
def test_error_is_summarised_in_one_line(error: Exception, expected: str) -> None:
    assert summarise_error(error) == expected


def test_activity_tells_running_queries_and_how_many_may_run() -> None:
    engines: Any = [_engines() for _ in range(3)]
    workers = Workers(engines, query_timeout=60.0)
    assert workers.activity == "running, 0 of 3 history queries"
    may_end = threading.Event()
    job = workers.start([], "query", lambda _: may_end.wait())
    workers.concurrency = 2  # the machine is busy
    assert workers.activity == "running, 1 of 2 history queries"
    may_end.set()
    job.future.result()
    assert list(workers.pop_finished([job])) == [job]
    assert workers.activity == "running, 0 of 2 history queries"
    workers.close()


def test_activity_tells_that_there_are_no_executors() -> None:
    engines: Any = _engines()
    engines.are_executors_away = lambda: True
    workers = Workers([engines], query_timeout=60.0)
    assert workers.activity == (
        "running, 0 of 1 history queries, no executors: answers what needs none"
    )
    workers.close()


def test_query_without_executors_is_interrupted_in_spark_and_told_why() -> None:
    engines: Any = Mock()
    engines.spark.is_alive.return_value = True
    slot = QuerySlot(engines)
    engines.are_executors_away.return_value = True
    workers = Workers([engines], query_timeout=60.0)
    workers.interrupt_spark([Mock(slot=slot)])
    engines.spark.cancel.assert_called_once_with()
    engines.cancel.assert_not_called()  # what runs in this process goes on
    with pytest.raises(ExecutorsAway):
        slot.raise_if_interrupted(ValueError("job was cancelled"))
    engines.are_executors_away.return_value = False
    workers.interrupt_spark([Mock(slot=slot)])
    engines.spark.cancel.assert_called_once_with()
    slot.raise_if_interrupted(ValueError("of the query itself"))
    workers.close()


class _Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self, is_exact: bool = True) -> float:
        return self.seconds


def test_query_is_charged_neither_the_start_of_spark_nor_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = _Clock()
    monkeypatch.setattr(query_slots, "WorkClock", lambda: clock)
    engines: Any = _engines()
    workers = Workers([engines], query_timeout=20.0)
    may_end = threading.Event()
    job = workers.start([], "query", lambda _: may_end.wait())
    timed_out: list[Any] = []
    monkeypatch.setattr(time, "monotonic", lambda: job.began_at + 90.0)
    engines.spark.start_seconds = 60.0
    clock.seconds = 79.0  # 11 of 90 seconds belonged to others
    workers.enforce_timeouts([job], timed_out.append)
    assert list(workers.pop_delays([job])) == [(job, pytest.approx(71.0))]
    assert list(workers.pop_delays([job])) == []
    assert timed_out == []
    clock.seconds = 80.5
    workers.enforce_timeouts([job], timed_out.append)
    assert timed_out == [job]
    assert job.slot.cancelled.is_set()
    may_end.set()
    workers.close()
