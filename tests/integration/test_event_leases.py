"""One recall process holds all tasks of an event that has stages or a condition."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from moirae.runtime import database
from recall.event_plans import EventPlan, Stage
from recall.ledger.tasks import Ledger
from sql.stages import RecalledEventGateway
from tests.stage_world import NORM_COLUMNS, StageWorld, stage, stage_world
from tests.waiting import wait_until

RECALLS = ("norm", "more")
LIGHT: Stage = stage(
    "light", "SELECT n.host FROM norm n", {"norm": NORM_COLUMNS}, {"host": "string"}
)
STAGES = EventPlan(recalls=RECALLS, stages=(LIGHT,))
NOTHING = EventPlan(recalls=RECALLS)


@pytest.fixture(scope="module")
def shared_world() -> Iterator[StageWorld]:
    with stage_world() as new_world:
        yield new_world


@pytest.fixture
def world(shared_world: StageWorld) -> StageWorld:
    shared_world.clear()
    return shared_world


@contextmanager
def _process(world: StageWorld) -> Iterator[Ledger]:
    """The ledger of a recall process, which is killed at the end."""
    with database.connect_database(world.settings, "recall") as connection:
        backend = connection.info.backend_pid
        yield Ledger(connection, Ledger.acquire_lease(connection))
    # PostgreSQL releases the locks of a closed connection shortly after it.
    wait_until(
        lambda: (
            not world.connection.execute(
                "SELECT FROM pg_stat_activity WHERE pid = %s", (backend,)
            ).fetchall()
        )
    )


def _claim(ledger: Ledger, limit: int = 100) -> list[tuple[int, str]]:
    """(event, recall) of what a process claims."""
    tasks = ledger.claim(0, limit, 100, [])
    return sorted((task.spec.event.eid.int, task.spec.recall) for task in tasks)


def _request(world: StageWorld, plan: EventPlan, events: int = 1) -> None:
    for number in range(1, events + 1):
        for recall in RECALLS:
            world.request(number, 12, plan, recall=recall)


def test_tasks_of_an_event_with_stages_go_to_one_process(world: StageWorld) -> None:
    _request(world, STAGES)
    with _process(world) as first, _process(world) as second:
        (claimed,) = _claim(first, limit=1)
        assert _claim(second) == []
        assert [*_claim(first), claimed] in ([(1, "more"), (1, "norm")], [(1, "norm"), (1, "more")])


def test_tasks_of_other_events_go_to_any_process(world: StageWorld) -> None:
    _request(world, NOTHING)
    with _process(world) as first, _process(world) as second:
        assert len(_claim(first, limit=1)) == 1
        assert len(_claim(second)) == 1


def test_held_events_do_not_use_up_the_limit_of_another_process(world: StageWorld) -> None:
    _request(world, STAGES, events=2)
    with _process(world) as first, _process(world) as second:
        ((held, _),) = _claim(first, limit=1)
        assert {event for event, _ in _claim(second, limit=2)} == {3 - held}


def test_event_of_a_dead_process_is_held_by_the_next_one(world: StageWorld) -> None:
    _request(world, STAGES)
    with _process(world) as second:
        with _process(world) as first:
            assert len(_claim(first, limit=1)) == 1
        second.reclaim_abandoned()
        assert _claim(second) == [(1, "more"), (1, "norm")]


def test_event_of_a_process_that_does_not_renew_its_lease_is_released(world: StageWorld) -> None:
    _request(world, STAGES)
    with _process(world) as first, _process(world) as second:
        assert len(_claim(first, limit=1)) == 1
        world.connection.execute("UPDATE tasks SET lease_until = now() - interval '1 s'")
        second.reclaim_abandoned()
        assert _claim(second) == [(1, "more"), (1, "norm")]


def test_processes_that_claim_at_once_hold_different_events(world: StageWorld) -> None:
    events = 40
    _request(world, STAGES, events)
    claimed: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
    start = threading.Barrier(2)

    def claim_until_none_is_left(number: int) -> None:
        deadline = time.monotonic() + 60
        with _process(world) as ledger:
            start.wait()
            # A claim passes over what the other process is claiming: an empty one is not the end.
            while sum(map(len, claimed.values())) < events * len(RECALLS):
                assert time.monotonic() < deadline
                claimed[number] += _claim(ledger, limit=3)
            ready.wait()

    ready = threading.Barrier(3)
    threads = [
        threading.Thread(target=claim_until_none_is_left, args=(number,)) for number in range(2)
    ]
    for thread in threads:
        thread.start()
    ready.wait(timeout=60)
    for thread in threads:
        thread.join()
    held = [{event for event, _ in claimed[number]} for number in range(2)]
    assert held[0].isdisjoint(held[1])
    everything = sorted(claimed[0] + claimed[1])
    assert everything == [(n, r) for n in range(1, events + 1) for r in sorted(RECALLS)]


def test_whether_something_follows_is_stored_with_the_event(world: StageWorld) -> None:
    world.request(1, 12, STAGES)
    world.request(2, 12, NOTHING)
    world.request(3, 12, EventPlan(recalls=RECALLS, where="norm.n > 1", judged={"norm": {}}))
    rows: list[tuple[Any, ...]] = world.connection.execute(
        "SELECT eid, has_stages FROM recalled_events ORDER BY eid"
    ).fetchall()
    assert [(UUID(str(eid)).int, has) for eid, has in rows] == [(1, True), (2, False), (3, True)]
    assert len(RecalledEventGateway(world.connection).list_open(None)) == 2
