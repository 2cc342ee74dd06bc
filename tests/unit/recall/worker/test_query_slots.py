"""Errors in one line, and the activity of workers."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from recall.worker.query_slots import Workers, summarise_error


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
    engines: Any = [SimpleNamespace(choice=None, shared_scan_stream=None) for _ in range(3)]
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
