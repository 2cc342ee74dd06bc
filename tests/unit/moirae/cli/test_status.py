"""Lines of `moirae status`."""

from moirae.cli.status import format_overload


def test_overload_names_queued_and_answered_recalls() -> None:
    queue = {"queued": 1234, "oldest_seconds": 10.4, "answered": 1000}
    assert format_overload(queue) == (
        "overloaded: 1,234 recalls queued (oldest 10 s), 1,000 of them with a first answer"
    )
