"""The time limit of `moirae query`."""

from types import SimpleNamespace
from typing import Any

import pytest

from moirae.cli.query import _TimeLimit


def _state(started: bool = True, delayed: float = 0.0) -> Any:
    return SimpleNamespace(started_at="then" if started else None, delayed=delayed)


def test_time_limit_counts_from_when_a_process_works_on_the_query() -> None:
    limit = _TimeLimit(20.0, 0.0, counts_delays=False)
    assert not limit.is_exceeded(_state(started=False), 1000.0)
    assert not limit.is_exceeded(_state(), 1019.0)
    assert limit.is_exceeded(_state(), 1020.0)


def test_waiting_for_spark_or_a_busy_machine_is_not_charged() -> None:
    limit = _TimeLimit(20.0, 0.0, counts_delays=False)
    assert not limit.is_exceeded(_state(), 0.0)
    assert not limit.is_exceeded(_state(delayed=30.0), 49.0)
    assert limit.is_exceeded(_state(delayed=30.0), 50.0)


def test_a_query_follows_for_the_time_that_was_asked_for() -> None:
    limit = _TimeLimit(20.0, 0.0, counts_delays=True)
    assert not limit.is_exceeded(_state(started=False), 0.0)
    assert limit.is_exceeded(_state(started=False, delayed=30.0), 20.0)


@pytest.mark.parametrize("counts_delays", [True, False])
def test_without_a_limit_a_query_takes_as_long_as_it_takes(counts_delays: bool) -> None:
    limit = _TimeLimit(None, 0.0, counts_delays)
    assert not limit.is_exceeded(_state(), 0.0)
    assert not limit.is_exceeded(_state(), 1e9)
