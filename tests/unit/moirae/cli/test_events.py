from datetime import UTC, datetime

from moirae.cli.events import _format_change
from moirae.services.operations.recent_changes import ListedChange


def test_text_of_a_change_cannot_control_the_terminal() -> None:
    change = ListedChange(
        stream="deploys",
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        what="web \x1b[2J",
        place={},
        steps=0,
        similar=0,
        similar_with_change=0,
        hours=None,
        not_compared="no earlier alert of this rule",
        sentence="web \x1b[2J (everywhere) 5m before; not compared",
    )
    text = _format_change(change)
    assert text.startswith("2026-01-01 00:00:00Z  web ")
    assert text.endswith("\n    not compared") and "\x1b" not in text
