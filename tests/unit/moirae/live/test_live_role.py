import threading
import time
from collections.abc import Mapping
from typing import Any, cast

import pytest

from archiver.ingest import IngestStats
from moirae.live.live_role import LiveRole, Stopped
from moirae.runtime import Role

STATS = IngestStats(
    engine="spark", batch=1, rows_per_second=1.0, tasks=4, executors=1, batches={"spark": 1}
)


class FakeRole:
    """Remembers heartbeats; loses nothing."""

    def __init__(self) -> None:
        self.states: list[tuple[str, bool]] = []
        self.fences = 0
        self.ingest: Mapping[str, Any] | None = None

    def heartbeat(
        self,
        state: str,
        first_commit_seconds: float | None = None,
        ingest: Mapping[str, Any] | None = None,
    ) -> None:
        self.states.append((state, first_commit_seconds is not None))
        self.ingest = ingest

    def fence(self) -> None:
        self.fences += 1


def make(drain: bool = False) -> tuple[LiveRole, FakeRole, threading.Event]:
    stop, fake = threading.Event(), FakeRole()
    role = LiveRole(cast(Role, fake), stop, drain=drain, started_at=time.monotonic())
    return role, fake, stop


def test_heartbeat_stores_the_state_and_the_first_commit() -> None:
    role, fake, _ = make()
    role.heartbeat()
    role.record_commit(STATS)
    role.heartbeat()
    role.end()
    assert fake.states == [("running", False), ("running", True), ("ended", True)]
    assert fake.ingest is not None and fake.ingest["engine"] == "spark"


def test_drain_has_a_state_of_its_own() -> None:
    role, fake, _ = make(drain=True)
    role.heartbeat()
    assert fake.states == [("draining", False)]


def test_only_the_first_commit_counts() -> None:
    role, _, _ = make()
    role.record_commit(STATS)
    seconds = role._first_commit_seconds
    time.sleep(0.01)
    role.record_commit(STATS)
    assert role._first_commit_seconds == seconds


def test_start_ends_when_a_stop_was_requested() -> None:
    role, fake, stop = make()
    role.end_if_stopped()
    assert fake.states == []
    stop.set()
    with pytest.raises(Stopped):
        role.end_if_stopped()
    assert fake.states == [("ended", False)]


def test_nothing_is_written_after_a_stop() -> None:
    role, fake, stop = make()
    role.fence()
    stop.set()
    with pytest.raises(Stopped):
        role.fence()
    assert fake.fences == 1
