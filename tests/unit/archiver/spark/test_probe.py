"""How many tasks executors can run at once."""

from types import SimpleNamespace
from typing import Any

import pytest

from archiver.spark import await_executors


@pytest.mark.parametrize("slots", [0, 1, 2, 5])
def test_counts_the_tasks_that_run_at_once(slots: int) -> None:
    """Not the default parallelism, which is a setting, or at least 2."""
    profile = object()
    scala_context = SimpleNamespace(
        resourceProfileManager=lambda: SimpleNamespace(defaultResourceProfile=lambda: profile),
        maxNumConcurrentTasks=lambda of: slots if of is profile else -1,
        statusTracker=lambda: SimpleNamespace(getExecutorInfos=lambda: ["driver", "executor"]),
    )
    context: Any = SimpleNamespace(
        _jsc=SimpleNamespace(sc=lambda: scala_context), defaultParallelism=max(2, slots)
    )
    assert await_executors(context, 2, timeout=0.0) == slots
