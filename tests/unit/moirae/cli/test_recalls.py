"""Hits of a similarity recall in the terminal."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from rich.console import Console

from moirae.cli.recalls import render_hits
from moirae.inspect.past_events import SimilarEvent

_STARTS_AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_hit_shows_course_of_the_alert_and_its_notes() -> None:
    notes = [
        {"kind": "ack", "author": "ada", "text": "mine", "tag": None},
        {"kind": "note", "author": "ada", "text": "fan is loud", "tag": None},
        {"kind": "note", "author": "ben", "text": "fan is dead\x1b[2J", "tag": None},
        {"kind": "resolution", "author": "ben", "text": "new fan", "tag": "fan"},
    ]
    lifetime = {
        "starts_at": _STARTS_AT,
        "ends_at": _STARTS_AT + timedelta(minutes=7),
        "last_at": _STARTS_AT,
        "again": 2,
    }
    alert = {
        "alert": UUID(int=7 << 96),
        "annotations": {"summary": "n7 is hot"},
        "notes": notes,
        **lifetime,
    }
    shared = [("cpu=93.5~91.2", 0.75), ("slice=a", 0.25)]
    hit = SimilarEvent(UUID(int=1), 1, 0.5, _STARTS_AT, shared, [], [], alert)
    console = Console(width=160)
    with console.capture() as capture:
        console.print(render_hits([hit]))
    lines = [line.strip() for line in capture.get().splitlines()]
    assert lines[0].startswith("1. 0.500 00000007  2026-01-01 00:00:00Z  n7 is hot")
    assert lines[0].endswith("n7 is hot  lasted 7 min, came back 2 times in a week")
    assert lines[1:] == [
        "shares cpu=93.5~91.2 75%, slice=a 25%",
        "taken up by ada mine",
        r"noted fan is dead\x1b[2J",
        "fixed by new fan [fan]",
    ]
