"""Which times of unread input are stored, and how often."""

from datetime import UTC, datetime, timedelta
from typing import Any

from moirae.live.unread_input import UnreadInputRecorder

START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A stream with unread input, a clock, and what was stored."""

    def __init__(self) -> None:
        self.now = START
        self.oldest: datetime | None = None
        self.stored: list[datetime | None] = []
        self.recorder = UnreadInputRecorder(
            self,  # type: ignore[arg-type]
            ["m"],
            lambda _: None if self.oldest is None else self.oldest.timestamp(),
            lambda: self.now,
        )

    def put(self, stream: str, oldest_at: datetime | None) -> None:
        self.stored.append(oldest_at)

    def delete_others(self, streams: Any) -> None:
        pass

    def record(self, seconds: float) -> None:
        self.now = START + timedelta(seconds=seconds)
        self.recorder.record()


def test_idle_stream_is_stored_once() -> None:
    world = World()
    world.record(0)
    world.record(60)
    assert world.stored == [None]


def test_input_that_is_just_being_read_is_not_stored() -> None:
    world = World()
    world.record(0)
    world.oldest = START
    world.record(4)
    assert world.stored == [None]
    world.record(5)
    assert world.stored == [None, START]


def test_waiting_input_is_stored_at_intervals_until_it_is_read() -> None:
    world = World()
    world.oldest = START
    for seconds in (5, 10, 14, 15):
        world.record(seconds)
    assert world.stored == [START, START]
    world.oldest = None
    world.record(16)
    assert world.stored == [START, START, None]
