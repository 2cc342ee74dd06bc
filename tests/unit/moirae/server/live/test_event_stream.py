"""The stream of a client: IDs of quiet clients, and the end of clients without rights."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from moirae.server.live import broadcaster as broadcaster_module
from moirae.server.live import event_stream
from moirae.server.live.broadcaster import Broadcaster, LiveClient
from moirae.server.live.changes import LiveEvent
from moirae.server.live.event_stream import EventStreamResponse
from sql.reports import ChangePosition

FIRST = ChangePosition(1, 0)
INTERVAL = 0.02  # seconds


class FakeBroadcaster(Broadcaster):
    """Changes of alerts, one each time they are read; None of them is stored anywhere."""

    newest = FIRST
    revoked = False

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]

    def _newest_position(self) -> ChangePosition:
        return self.newest

    def _is_stored(self, position: ChangePosition) -> bool:
        return True

    def _read(
        self, after: ChangePosition, upto: ChangePosition | None
    ) -> tuple[list[LiveEvent], ChangePosition]:
        if after >= (upto or self.newest):
            return [], after
        position = ChangePosition(1, after.id + 1)
        return [LiveEvent("alert", b"{}", position, UUID(int=1))], position

    def _read_status(self) -> bytes:
        return b"{}"

    def _find_unauthorized(self, clients: Any) -> list[LiveClient]:
        return list(clients) if self.revoked else []


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_KEEP_ALIVE", INTERVAL)
    for name in ("_POLL_INTERVAL", "_RIGHTS_INTERVAL", "_STATUS_INTERVAL"):
        monkeypatch.setattr(broadcaster_module, name, INTERVAL)


class Connection:
    """What the server sends to a client. `delay`: seconds in which the client reads it."""

    def __init__(self, delay: float = 0.0) -> None:
        self.content = b""
        self.sizes: list[int] = []  # bytes of each message
        self._delay = delay
        self.has_ended = False

    async def send(self, message: Any) -> None:
        await asyncio.sleep(self._delay)
        self.content += message.get("body", b"")
        self.sizes.append(len(message.get("body", b"")))
        self.has_ended = message.get("more_body") is False

    async def receive(self) -> Any:
        await asyncio.Event().wait()


async def wait_until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_client_that_wants_none_of_the_changes_gets_their_ids() -> None:
    async def run() -> bytes:
        broadcaster, connection = FakeBroadcaster(), Connection()
        client = LiveClient(lambda _: True, kinds=["revision"])
        response = EventStreamResponse(broadcaster, client, None)
        task = asyncio.create_task(response({}, connection.receive, connection.send))
        await wait_until(lambda: b"keep-alive" in connection.content)
        broadcaster.newest = ChangePosition(1, 3)
        await wait_until(lambda: b"id: 1-3\n\n" in connection.content)
        client.close()
        await task
        return connection.content

    content = asyncio.run(run())
    assert b"event: alert" not in content
    assert content.count(b"id: 1-3\n") == 1  # once for each position


def test_large_events_are_sent_in_messages_of_bounded_size() -> None:
    async def run() -> Connection:
        broadcaster, connection = FakeBroadcaster(), Connection()
        client = LiveClient(lambda _: True)
        response = EventStreamResponse(broadcaster, client, None)
        task = asyncio.create_task(response({}, connection.receive, connection.send))
        await wait_until(lambda: b"keep-alive" in connection.content)
        large = LiveEvent("revision", b"x" * 300_000, ChangePosition(2, 0))
        client.offer(large, large.encode())
        await wait_until(lambda: large.encode() in connection.content)
        client.close()
        await task
        return connection

    connection = asyncio.run(run())
    assert max(connection.sizes) == 64 << 10
    assert connection.has_ended


def test_revoked_token_ends_the_stream_of_what_was_missed() -> None:
    async def run() -> Connection:
        broadcaster, connection = FakeBroadcaster(), Connection(INTERVAL)
        broadcaster.newest = ChangePosition(1, 100_000)
        response = EventStreamResponse(broadcaster, LiveClient(lambda _: True), FIRST)
        task = asyncio.create_task(response({}, connection.receive, connection.send))
        await wait_until(lambda: connection.content.count(b"event: alert") > 2)
        broadcaster.revoked = True
        await asyncio.wait_for(task, 10)
        return connection

    connection = asyncio.run(run())
    assert connection.has_ended
    assert connection.content.count(b"event: alert") < 1_000
