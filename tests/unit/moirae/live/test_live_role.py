import threading
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from archiver.ingest.engines import IngestStats
from moirae.errors import MoiraeError, Stopped
from moirae.live.live_role import LiveRole
from moirae.runtime import Role

STATS = IngestStats(
    engine="spark", batch=1, rows_per_second=1.0, tasks=4, executors=1, batches={"spark": 1}
)


class FakeRole:
    """Remembers heartbeats; loses nothing."""

    def __init__(self) -> None:
        self.states: list[tuple[str, float | None]] = []
        self.fences = 0
        self.error: str | None = None
        self.ingest: Mapping[str, Any] | None = None

    def heartbeat(
        self,
        state: str,
        first_commit_seconds: float | None = None,
        ingest: Mapping[str, Any] | None = None,
    ) -> None:
        self.states.append((state, first_commit_seconds))
        self.ingest = ingest

    def fail(self, error: str) -> None:
        self.error = error

    def fence(self) -> None:
        self.fences += 1


def make(
    drain: bool = False, times: Iterable[float] = ()
) -> tuple[LiveRole, FakeRole, threading.Event]:
    """`times`: the readings of the clock after the start, which is at 100 s."""
    stop, fake = threading.Event(), FakeRole()
    clock = iter(times).__next__
    role = LiveRole(cast(Role, fake), stop, drain=drain, started_at=100.0, clock=clock)
    return role, fake, stop


def test_heartbeat_stores_the_state_and_the_first_commit() -> None:
    role, fake, _ = make(times=[103.0])
    role.heartbeat()
    role.record_commit(STATS)
    role.heartbeat()
    role.end()
    assert fake.states == [("running", None), ("running", 3.0), ("ended", 3.0)]
    assert fake.ingest is not None and fake.ingest["engine"] == "spark"


def test_drain_has_a_state_of_its_own() -> None:
    role, fake, _ = make(drain=True)
    role.heartbeat()
    assert fake.states == [("draining", None)]


def test_only_the_first_commit_counts() -> None:
    role, fake, _ = make(times=[103.0, 105.0])
    role.record_commit(STATS)
    role.record_commit(STATS)
    role.heartbeat()
    assert fake.states == [("running", 3.0)]


def test_start_ends_when_a_stop_was_requested() -> None:
    role, fake, stop = make()
    role.end_if_stopped()
    assert fake.states == []
    stop.set()
    with pytest.raises(Stopped):
        role.end_if_stopped()
    assert fake.states == [("ended", None)]


def test_nothing_is_written_after_a_stop() -> None:
    role, fake, stop = make()
    role.fence()
    stop.set()
    with pytest.raises(Stopped):
        role.fence()
    assert fake.fences == 1


def test_failure_is_stored_with_the_role() -> None:
    role, fake, _ = make()
    with pytest.raises(MoiraeError), role.record_failure():
        raise MoiraeError("no space left")
    assert fake.error == "no space left"
