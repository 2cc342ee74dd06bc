"""Problems of a workspace and the first line of `moirae status`, which monitors rely on."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moirae.inspect.health import (
    assess_health,
    assess_live_condition,
    describe_liveness,
    list_problems,
)

STARTED = 1000  # seconds ago


def _status(recalls: dict[str, int], **roles: tuple[str, float]) -> dict[str, Any]:
    """A status. `roles`: state of each process and seconds since its last heartbeat."""
    now = datetime.now(UTC)
    return {
        "accounting": {"read": 0, "archived": 0, "duplicates": 0, "dead_lettered": 0},
        "rules": [],
        "incomplete_rules": [],
        "rule_files": {"problems": []},
        "recalls": recalls,
        "disks": [],
        "relation_errors": [],
        "column_rewrites": [],
        "set_aside": [],
        "held_relations": [],
        "damaged_files": [],
        "maintenance_errors": [],
        "unfinished_erasures": 0,
        "restarts": [],
        "source_errors": [],
        "lost_records": [],
        "backup": {"to": None, "failure": None, "is_overdue": False},
        "notifications": {"waiting": 0, "given_up": 0, "failing": [], "unread": [], "problems": []},
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
    ("recalls", "roles", "healthy", "message"),
    [
        ({}, {}, True, "not started: run `moirae up`"),
        ({}, {"up": ("running", 1)}, True, "starting"),
        ({}, {"live": ("running", 1)}, True, "live process running, all records accounted for"),
        ({}, {"live": ("ended", 1)}, True, "not running: stopped normally"),
        (
            {"waiting": 92, "running": 308, "done": 16},
            {"live": ("ended", 1), "recall": ("running", 1), "up": ("draining", 1)},
            True,
            "all input evaluated, 400 recalls open",
        ),
        ({"waiting": 3}, {"live": ("ended", 90), "recall": ("ended", 90)}, True, "not running"),
        (
            {},
            {"live": ("starting", 40), "up": ("running", 1)},
            True,
            "live process starting for 40 s",
        ),
        (
            {},
            {"live": ("running", 40), "up": ("running", 1)},
            True,
            "live process running, no heartbeat for 40 s",
        ),
        (
            {},
            {"live": ("starting", 400), "up": ("running", 1)},
            False,
            "no heartbeat from the live process for 400 s: check its log",
        ),
        (
            {},
            {"live": ("ended", 20), "up": ("running", 21)},
            False,
            "`moirae up` crashed and its processes stopped: start it again",
        ),
        ({}, {"live": ("ended", 20), "up": ("ended", 19)}, True, "not running"),
        ({}, {"live": ("ended", 20), "up": ("running", 2 * STARTED)}, True, "not running"),
        (
            {},
            {"live": ("running", 40)},
            False,
            "no heartbeat from the live process for 40 s: start `moirae up`",
        ),
    ],
)
def test_health_follows_from_the_live_process(
    recalls: dict[str, int], roles: dict[str, tuple[str, float]], healthy: bool, message: str
) -> None:
    is_healthy, line = assess_health(_status(recalls, **roles))
    assert is_healthy is healthy
    assert line.startswith(message)


@pytest.mark.parametrize(
    ("roles", "up_age", "condition"),
    [
        ({}, None, "stopped"),
        ({"up": ("running", 1)}, 20, "starting"),
        ({"up": ("running", 1)}, 500, "stopped"),
        ({"up": ("running", 30)}, 40, "stopped"),
        ({"live": ("starting", 1)}, None, "starting"),
        ({"live": ("starting", 40), "up": ("running", 1)}, 50, "starting"),
        ({"live": ("starting", 400), "up": ("running", 1)}, 500, "stopped"),
        ({"live": ("running", 1)}, None, "running"),
        ({"live": ("draining", 1), "up": ("running", 1)}, 500, "running"),
        ({"live": ("running", 40), "up": ("running", 1)}, 500, "late"),
        ({"live": ("running", 40)}, None, "stopped"),
        # Of the previous `moirae up`, which was killed.
        ({"live": ("running", 10), "up": ("running", 1)}, 5, "starting"),
        ({"live": ("ended", 30), "up": ("running", 1)}, 5, "starting"),
        ({"live": ("ended", 3), "up": ("running", 1)}, 500, "stopped"),
        ({"live": ("failed", 3), "up": ("running", 1)}, 5, "stopped"),
    ],
)
def test_live_process_runs_from_its_first_heartbeat_after_the_start(
    roles: dict[str, tuple[str, float]], up_age: float | None, condition: str
) -> None:
    """`up_age`: seconds since the start of `moirae up`."""
    processes = _status({}, **roles)["processes"]
    for process in processes:
        if process["role"] == "up" and up_age is not None:
            process["started_at"] = datetime.now(UTC) - timedelta(seconds=up_age)
    assert assess_live_condition(processes) == condition


def test_full_disk_is_a_problem_while_processes_run() -> None:
    disk = {
        "path": "/data",
        "holds": ["home", "archive"],
        "free_bytes": 100 << 20,
        "reserve_bytes": 512 << 20,
    }
    status = {**_status({}, live=("running", 1)), "disks": [disk]}
    is_healthy, problem = assess_health(status)
    assert not is_healthy
    assert problem.startswith(
        "disk space is low: 100 MiB free at /data (home, archive), at least 512 MiB are needed"
    )
    assert "free some space" in problem
    assert assess_health({**status, "disks": [{**disk, "free_bytes": 512 << 20}]})[0]


def test_all_problems_are_listed() -> None:
    disk = {"path": "/data", "holds": ["home"], "free_bytes": 0, "reserve_bytes": 1}
    status = {
        **_status({}, live=("running", 40)),
        "accounting": {"read": 1, "archived": 0, "duplicates": 0, "dead_lettered": 0},
        "disks": [disk],
        "incomplete_rules": [{"rule": "g/r", "state": "quarantined", "since": None}],
        "rule_files": {"problems": ["rules.yaml:3:1: duplicate key"]},
        "relation_errors": [{"relation": "hosts", "error": "hosts.csv: no such file"}],
    }
    accounting, full_disk, *problems = list_problems(status)
    assert accounting.startswith("accounting mismatch: ")
    assert full_disk.startswith("disk space is low: ")
    assert problems == [
        "rules in quarantine: g/r (not evaluated from the beginning): see `moirae rules list`",
        "rule files rejected, the previous rules stay in use: rules.yaml:3:1: duplicate key",
        "relation hosts: its source cannot be read, the last version stays in use: "
        "hosts.csv: no such file",
        "no heartbeat from the live process for 40 s: start `moirae up`, or check its log",
    ]


IN_USE = "cannot listen on 127.0.0.1:8765: the port is in use"


@pytest.mark.parametrize(
    ("role", "state", "failed", "up", "problem"),
    [
        ("server", "failed", 20, ("running", 1), f"the server process is not running: {IN_USE}"),
        # It fails at each restart.
        ("server", "starting", 20, ("running", 1), f"the server process is not running: {IN_USE}"),
        ("live", "starting", 20, ("running", 1), f"the live process is not running: {IN_USE}"),
        # It failed before this `moirae up` was started.
        ("server", "starting", 2 * STARTED, ("running", 1), None),
        # Without `moirae up` it is not expected to run.
        ("server", "failed", 20, ("ended", 1), None),
        ("live", "failed", 20, ("ended", 1), f"the live process is not running: {IN_USE}"),
    ],
)
def test_process_that_fails_to_start_is_a_problem(
    role: str, state: str, failed: float, up: tuple[str, float], problem: str | None
) -> None:
    status = _status({}, **{"live": ("running", 1), role: (state, 1), "up": up})
    (process,) = [process for process in status["processes"] if process["role"] == role]
    process["error"], process["failed_at"] = IN_USE, datetime.now(UTC) - timedelta(seconds=failed)
    assert list_problems(status) == ([] if problem is None else [problem])
    process["error"] = f"{IN_USE}\na\nb"
    more = "(and 2 more lines, see `moirae status -o json`)"
    assert list_problems(status) == ([] if problem is None else [f"{problem} {more}"])


@pytest.mark.parametrize(
    ("role", "roles", "liveness"),
    [
        ("live", {"live": ("running", 1), "up": ("running", 1)}, "yes"),
        ("live", {"live": ("running", 40), "up": ("running", 1)}, "late"),
        ("live", {"live": ("running", 400), "up": ("running", 1)}, "no"),
        ("live", {"live": ("running", 40), "up": ("running", 40)}, "no"),
        ("live", {"live": ("ended", 40), "up": ("running", 1)}, "no"),
        ("recall", {"recall": ("running", 40), "up": ("running", 1)}, "late"),
        ("recall", {"recall": ("running", 40)}, "no"),
        ("up", {"live": ("running", 1), "up": ("running", 40)}, "late"),
    ],
)
def test_process_without_heartbeat_is_late_until_it_is_a_problem(
    role: str, roles: dict[str, tuple[str, float]], liveness: str
) -> None:
    status = _status({}, **roles)
    (process,) = [process for process in status["processes"] if process["role"] == role]
    assert describe_liveness(process, status) == liveness


def test_chunk_whose_tasks_fail_counts_once() -> None:
    status = _status({}, live=("running", 1))
    for chunk, task in ((3, "cluster"), (3, "compact"), (4, "cluster")):
        error = {"chunk": chunk, "task": task, "error": "rows would be lost"}
        status["maintenance_errors"].append(error)
    (problem,) = list_problems(status)
    assert problem.startswith("maintenance of 2 chunks fails")
    assert problem.endswith("chunk 3: cluster: rows would be lost")
