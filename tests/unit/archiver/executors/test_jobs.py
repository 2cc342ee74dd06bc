"""Worker processes that start in the background, while the application may end."""

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from structlog.testing import capture_logs

from archiver.executors.jobs import SparkJobs


def _context(is_stopped: bool | Exception) -> Any:
    def answer() -> bool:
        if isinstance(is_stopped, Exception):
            raise is_stopped
        return is_stopped

    def fail(*_: object) -> None:
        raise RuntimeError("Job 0 cancelled because SparkContext was shut down\n\tat org.apache")

    java_context = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=answer))
    return SimpleNamespace(_jsc=java_context, defaultParallelism=2, parallelize=fail)


@pytest.mark.parametrize(
    ("is_stopped", "actions"),
    [(True, []), (Py4JNetworkError("the JVM has ended"), []), (False, ["warm_up_failed"])],
)
def test_workers_that_do_not_start_are_logged_unless_the_application_ends(
    is_stopped: bool | Exception, actions: list[str]
) -> None:
    jobs = SparkJobs(_context(is_stopped))
    with capture_logs() as logs:
        jobs._start_workers()
    assert [entry["action"] for entry in logs] == actions
    assert not jobs.is_warm
