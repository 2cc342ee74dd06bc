"""Calls of window() in queries."""

import pytest

from recall.query.parsing import Unsupported, parse
from recall.query.windows import window_specs

MINUTE = 60_000_000  # microseconds


@pytest.mark.parametrize(
    ("window", "spec"),
    [
        ("window(ts, '5 minutes')", (5 * MINUTE, 5 * MINUTE, 0)),
        ("window(ts, '5 minutes', '1 minute')", (5 * MINUTE, MINUTE, 0)),
        ("window(ts, '5 minutes', '5 minutes', '2 minutes')", (5 * MINUTE, 5 * MINUTE, 2 * MINUTE)),
    ],
)
def test_size_slide_and_start_are_read(window: str, spec: tuple[int, int, int]) -> None:
    query = parse(f"SELECT max(ts) AS ts FROM t GROUP BY {window}")
    assert window_specs(query) == [spec]


def test_windows_of_inner_queries_are_included() -> None:
    query = parse(
        "SELECT max(ts) AS ts FROM "
        "(SELECT window.end AS ts FROM t GROUP BY window(ts, '1 minute')) "
        "GROUP BY window(ts, '2 minutes')"
    )
    assert {size for size, _, _ in window_specs(query)} == {MINUTE, 2 * MINUTE}


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("window(ts, 5)", "must be constant text"),
        ("window(ts)", "must be constant text"),
        ("window(ts, '0 minutes')", "must be constant text"),
        ("window(ts, '1 month')", "is not a fixed interval"),
        ("window(ts, '1 minute', '2 minutes')", "the slide of a window"),
        ("window(ts, '1 minute', '-1 minutes')", "the slide of a window"),
    ],
)
def test_other_windows_are_rejected(window: str, message: str) -> None:
    query = parse(f"SELECT max(ts) AS ts FROM t GROUP BY {window}")
    with pytest.raises(Unsupported, match=message):
        window_specs(query)
