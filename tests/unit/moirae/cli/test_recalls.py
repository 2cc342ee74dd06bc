"""How a past event is shown: why it is alike, how it went, and what was done."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from rich.console import Console

from moirae.cli.recalls import render_hits
from moirae.inspect.past_events import SimilarEvent

_THEN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_hit_tells_what_was_done_then() -> None:
    notes = [
        {"kind": "ack", "author": "ada", "text": "mine", "tag": None},
        {"kind": "note", "author": "ada", "text": "fan is loud", "tag": None},
        {"kind": "note", "author": "ben", "text": "fan is dead\x1b[2J", "tag": None},
        {"kind": "resolution", "author": "ben", "text": "new fan", "tag": "fan"},
    ]
    ends = {
        "starts_at": _THEN,
        "ends_at": _THEN + timedelta(minutes=7),
        "last_at": _THEN,
        "again": 2,
    }
    past = {"annotations": {"summary": "n7 is hot"}, "notes": notes, **ends}
    shared = [("cpu=93.5~91.2", 0.75), ("slice=a", 0.25)]
    hit = SimilarEvent(UUID(int=1), 1, 0.5, _THEN, shared, [], [], past)
    console = Console(width=160)
    with console.capture() as drawn:
        console.print(render_hits([hit]))
    lines = [line.strip() for line in drawn.get().splitlines()]
    assert lines[0].endswith("n7 is hot  lasted 7 min, came back 2 times in a week")
    assert lines[1:] == [
        "shares cpu=93.5~91.2 75%, slice=a 25%",
        "taken up by ada mine",
        r"noted fan is dead\x1b[2J",
        "fixed by new fan [fan]",
    ]
