"""Queues of live clients: order, filters and bounded memory."""

import asyncio
from uuid import UUID

from moirae.server.live import broadcaster
from moirae.server.live.broadcaster import LiveClient
from moirae.server.live.changes import LiveEvent
from sql.reports import ChangePosition

EID = UUID(int=1)


def make_event(number: int, kind: str = "alert", eid: UUID = EID) -> LiveEvent:
    return LiveEvent(kind, str(number).encode(), ChangePosition(number, number), eid)


def offer(client: LiveClient, *events: LiveEvent) -> None:
    for event in events:
        client.offer(event, event.encode())


def receive(client: LiveClient, timeout: float = 0.01) -> bytes:
    return asyncio.run(client.next_events(timeout))


def test_events_are_sent_together_in_order() -> None:
    client = LiveClient(lambda _: True)
    events = [make_event(number) for number in (1, 2, 3)]
    offer(client, *events)
    assert receive(client) == b"".join(event.encode() for event in events)
    assert receive(client) == b""


def test_events_that_were_sent_before_are_left_out() -> None:
    client = LiveClient(lambda _: True)
    client.position = ChangePosition(2, 2)
    offer(client, make_event(1), make_event(2), make_event(3))
    assert receive(client) == make_event(3).encode()


def test_client_gets_the_kinds_and_the_event_it_asked_for() -> None:
    client = LiveClient(lambda _: True, kinds=["revision"], eid=EID)
    wanted = make_event(2, "revision")
    offer(client, make_event(1), wanted, make_event(3, "revision", UUID(int=2)))
    assert receive(client) == wanted.encode()


def test_client_that_does_not_read_is_closed_and_its_memory_freed() -> None:
    client = LiveClient(lambda _: True)
    large = LiveEvent("alert", b"x" * 1_000, ChangePosition(1, 1), EID)
    for _ in range(2 * broadcaster.MAX_PENDING_BYTES // 1_000):
        client.offer(large, large.encode())
    assert client.is_closed
    assert receive(client) == b""


def test_events_that_are_being_sent_count_until_the_client_has_read_them() -> None:
    client = LiveClient(lambda _: True)
    large = LiveEvent("alert", b"x" * (broadcaster.MAX_PENDING_BYTES * 2 // 3), None, EID)

    async def run() -> None:
        for _ in range(2):
            client.offer(large, large.encode())
            assert await client.next_events(0.01) == large.encode()
            assert await client.next_events(0.01) == b""  # now the first ones have been read
        client.offer(large, large.encode())
        await client.next_events(0.01)
        assert not client.is_closed
        client.offer(large, large.encode())

    asyncio.run(run())
    assert client.is_closed


def test_closing_wakes_the_client() -> None:
    async def close_while_waiting() -> bytes:
        client = LiveClient(lambda _: True)
        waiting = asyncio.create_task(client.next_events(60))
        await asyncio.sleep(0)
        client.close()
        return await asyncio.wait_for(waiting, 5)

    assert asyncio.run(close_while_waiting()) == b""
