"""Progress of views as text."""

from typing import Any

import pytest

from moirae.history import format_progress


def _count(found: int, chunks: int, failed: int = 0) -> dict[str, int]:
    return {"found": found, "chunks": chunks, "failed": failed}


@pytest.mark.parametrize(
    ("chunks", "events", "text"),
    [
        ({"present": _count(0, 1), "recent": _count(1, 2)}, 63, "1 of 3 chunks, 63 events"),
        ({"recent": _count(0, 1)}, 1, "0 of 1 chunk, 1 event"),
        ({"old": _count(1, 4, failed=2)}, 0, "1 of 4 chunks (2 failed), 0 events"),
    ],
)
def test_progress_counts_all_chunks(chunks: dict[str, Any], events: int, text: str) -> None:
    assert format_progress({"chunks": chunks, "events": events}) == text
