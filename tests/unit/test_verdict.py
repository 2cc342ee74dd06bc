"""What `moirae status` says first: a check in a monitor goes by it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moirae.inspect.status import assess_health, list_problems

STARTED = 1000


def _status(recalls: dict[str, int], **roles: tuple[str, float]) -> dict[str, Any]:
    """`roles`: the state of each process, and for how many seconds it has given no sign of life; it
    has been started `STARTED` seconds ago.
    """
    now = datetime.now(UTC)
    return {
        "accounting": {"read": 0, "archived": 0, "duplicates": 0, "dead_lettered": 0},
        "rules": [],
        "rule_files": {"problems": []},
        "recalls": recalls,
        "disks": [],
        "relation_errors": [],
        "processes": [
            {
                "role": role,
                "state": state,
                "beat_at": now - timedelta(seconds=silent),
                "started_at": now - timedelta(seconds=STARTED),
                "alive": state not in ("ended", "failed") and silent < 15,
                "error": None,
                "failed_at": None,
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


def test_a_full_disk_is_a_problem_whatever_runs() -> None:
    disk = {
        "path": "/data",
        "holds": ["home", "archive"],
        "free_bytes": 100 << 20,
        "reserve_bytes": 512 << 20,
    }
    status = {**_status({}, live=("running", 1)), "disks": [disk]}
    well, told = assess_health(status)
    assert not well
    assert told.startswith(
        "disk space is low: 100 MiB free at /data (home, archive), at least 512 MiB are needed"
    )
    assert "free some space" in told
    assert assess_health({**status, "disks": [{**disk, "free_bytes": 512 << 20}]})[0]


def test_all_problems_are_listed() -> None:
    disk = {"path": "/data", "holds": ["home"], "free_bytes": 0, "reserve_bytes": 1}
    refused = {"problems": ["rules.yaml:3:1: duplicate key"]}
    status = {**_status({}, live=("running", 40)), "disks": [disk], "rule_files": refused}
    assert [problem.split()[0] for problem in list_problems(status)] == ["disk", "the", "the"]


IN_USE = "cannot listen on 127.0.0.1:8765: the port is in use"


@pytest.mark.parametrize(
    ("role", "state", "failed", "up", "told"),
    [
        ("server", "failed", 20, ("running", 1), f"the server process does not run: {IN_USE}"),
        # It is started again and again, and fails each time.
        ("server", "starting", 20, ("running", 1), f"the server process does not run: {IN_USE}"),
        ("live", "starting", 20, ("running", 1), f"the live process does not run: {IN_USE}"),
        # Before this `moirae up` was started.
        ("server", "starting", 2 * STARTED, ("running", 1), None),
        # Nobody wants it to run.
        ("server", "failed", 20, ("ended", 1), None),
        ("live", "failed", 20, ("ended", 1), f"the live process does not run: {IN_USE}"),
    ],
)
def test_a_process_that_fails_to_start_is_a_problem(
    role: str, state: str, failed: float, up: tuple[str, float], told: str | None
) -> None:
    status = _status({}, **{"live": ("running", 1), role: (state, 1), "up": up})
    (process,) = [process for process in status["processes"] if process["role"] == role]
    process["error"], process["failed_at"] = IN_USE, datetime.now(UTC) - timedelta(seconds=failed)
    assert list_problems(status) == ([] if told is None else [told])
    process["error"] = f"{IN_USE}\na\nb"
    assert list_problems(status) == (
        [] if told is None else [f"{told} (and 2 more lines, see `status -o json`)"]
    )
