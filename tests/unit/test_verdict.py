"""What `moirae status` says first: a check in a monitor goes by it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moirae.inspect.status import assess_health

STARTED = 1000


def _status(recalls: dict[str, int], **roles: tuple[str, float]) -> dict[str, Any]:
    """`roles`: the state of each process, and for how many seconds it has given no sign of life; it has been started
    `STARTED` seconds ago."""
    now = datetime.now(UTC)
    return {
        "accounting": {"read": 0, "archived": 0, "duplicates": 0, "dead_lettered": 0},
        "rules": [],
        "rule_files": {"problems": []},
        "recalls": recalls,
        "processes": [
            {
                "role": role,
                "state": state,
                "beat_at": now - timedelta(seconds=silent),
                "started_at": now - timedelta(seconds=STARTED),
                "alive": state != "ended" and silent < 15,
            }
            for role, (state, silent) in roles.items()
        ],
    }


@pytest.mark.parametrize(
    ("recalls", "roles", "well", "words"),
    [
        ({}, {}, True, "nothing has run here yet"),
        ({}, {"up": ("running", 1)}, True, "starting"),
        ({}, {"live": ("running", 1)}, True, "running"),
        ({}, {"live": ("ended", 1)}, True, "not running; ended in good order"),
        (
            {"waiting": 92, "running": 308, "done": 16},
            {"live": ("ended", 1), "recall": ("running", 1), "up": ("draining", 1)},
            True,
            "400 recalls are still to be answered",
        ),
        ({"waiting": 3}, {"live": ("ended", 90), "recall": ("ended", 90)}, True, "not running"),
        (
            {},
            {"live": ("starting", 40), "up": ("running", 1)},
            True,
            "starting, and has been busy for 40 s",
        ),
        (
            {},
            {"live": ("starting", 400), "up": ("running", 1)},
            False,
            "no sign of life for 400 s: look at",
        ),
        ({}, {"live": ("ended", 20), "up": ("running", 21)}, False, "`moirae up` has fallen"),
        ({}, {"live": ("ended", 20), "up": ("ended", 19)}, True, "not running"),
        ({}, {"live": ("ended", 20), "up": ("running", 2 * STARTED)}, True, "not running"),
        (
            {},
            {"live": ("running", 40)},
            False,
            "no sign of life for 40 s: start it with `moirae up`",
        ),
    ],
)
def test_verdict(
    recalls: dict[str, int], roles: dict[str, tuple[str, float]], well: bool, words: str
) -> None:
    fine, told = assess_health(_status(recalls, **roles))
    assert fine is well and words in told
