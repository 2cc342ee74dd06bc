"""Coverage of answers in words, and what is known of past events."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from moirae.inspect.past_events import SimilarEvent, describe_coverage

COVERAGE = {"read": 2, "left": 3, "failed": 0, "read_from": 0, "final": False, "partial": True}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "2 of 5 chunks, back to 1970-01-01 00:00Z"),
        ({"read_from": None}, "2 of 5 chunks, back to the beginning"),
        ({"failed": 1}, "2 of 6 chunks, back to 1970-01-01 00:00Z, 1 failed"),
        (
            {"asked_to": 86_400_000_000, "ranges": 7},
            "2 of 5 chunks, back to 1970-01-01 00:00Z, up to 1970-01-02 00:00Z, 7 ranges of time",
        ),
        (  # digits are not rounded: these are bounds
            {"unread": {"bytes": [0.5, 12_345_678]}},
            "2 of 5 chunks, back to 1970-01-01 00:00Z, bytes of unread rows is between 0.5 and 12345678",
        ),
        (
            {"by_summary": 4, "hopeful": 0},
            "6 of 9 chunks, back to 1970-01-01 00:00Z, 4 of them by their summary, "
            "none of the unread chunks can change the answer",
        ),
        ({"left": 0, "final": True}, "2 of 2 chunks, back to 1970-01-01 00:00Z, final but partial"),
        (
            {"left": 0, "final": True, "partial": False},
            "2 of 2 chunks, back to 1970-01-01 00:00Z, final",
        ),
    ],
)
def test_coverage_states_chunks_read_and_open(changes: dict[str, Any], text: str) -> None:
    assert describe_coverage({**COVERAGE, **changes}) == text


def test_kind_is_the_tag_of_the_newest_tagged_resolution() -> None:
    notes = [
        {"kind": "resolution", "tag": "fan"},
        {"kind": "note", "tag": "loud"},
        {"kind": "resolution", "tag": "disk"},
        {"kind": "resolution", "tag": None},
    ]
    time = datetime(2026, 1, 1, tzinfo=UTC)
    event = SimilarEvent(UUID(int=1), 1, 0.5, time, [], [], [], {"notes": notes})
    assert event.kind == "disk"
    assert [note["tag"] for note in event.resolutions] == [None, "disk", "fan"]
