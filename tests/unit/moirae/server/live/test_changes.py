"""Server-sent events: their lines and IDs."""

import pytest

from moirae.server.live.changes import LiveEvent, format_position, parse_position
from sql import ChangePosition


def test_event_has_an_id_if_it_can_be_resumed_after() -> None:
    event = LiveEvent("alert", b'{"a":1}', ChangePosition(17, 3))
    assert event.encode() == b'id: 17-3\nevent: alert\ndata: {"a":1}\n\n'
    assert LiveEvent("status", b"{}").encode() == b"event: status\ndata: {}\n\n"


def test_position_is_read_from_the_id() -> None:
    position = ChangePosition(17, 3)
    assert parse_position(format_position(position)) == position


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "a-1", "1-2-3", "٣-1", f"{1 << 63}-1"])
def test_changes_after_an_invalid_id_are_not_stored(text: str) -> None:
    assert parse_position(text) < ChangePosition(0, 0)
