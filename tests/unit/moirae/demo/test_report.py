"""What the demo says of an alert's host while history is read."""

from typing import Any

import pytest

from moirae.demo.report import format_norm

COVERAGE = {"read": 1, "left": 26, "failed": 0, "by_summary": 0, "final": False}


@pytest.mark.parametrize(
    ("changes", "samples", "label", "chunks"),
    [
        ({}, 900, "there so far", "1 of 27 chunks read, too few to judge"),
        ({"read": 5, "left": 22}, 29, "there so far", "5 of 27 chunks read, too few to judge"),
        ({"read": 5, "left": 22}, 900, "normal there so far", "5 of 27 chunks read"),
        ({"by_summary": 4}, 900, "normal there so far", "5 of 31 chunks read"),
        ({"left": 0, "final": True}, 9, "normal there", "1 of 1 chunks read"),
    ],
)
def test_few_chunks_do_not_say_what_is_normal(
    changes: dict[str, Any], samples: int, label: str, chunks: str
) -> None:
    statistics = {"mean": 39.71, "sd": 6.3, "highest": 55.4, "samples": samples}
    text = format_norm(statistics, {**COVERAGE, **changes}).plain
    assert text == f"    {label}: mean 39.7 ± 6.3, at most 55.4  ({chunks})"
