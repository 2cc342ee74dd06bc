"""Assessment of a workspace: problems that need attention, and its state in a line.

Functions take the status as `moirae.inspect.collect_status` returns it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sql
from archiver.clock import utc_now
from moirae.inspect.accounting import is_balanced
from moirae.inspect.backups import find_backup_problem
from moirae.inspect.column_rewrites import find_rewrite_problems
from moirae.inspect.incomplete_rules import find_rule_problems
from moirae.inspect.notifications import find_notification_problems
from moirae.inspect.report import LiveCondition
from moirae.inspect.restarts import find_crash_loops
from moirae.inspect.set_aside import find_set_aside_problem
from moirae.inspect.topics import find_topic_problems
from moirae.runtime import list_processes
from moirae.runtime.storage import DiskSpace

# After a live process has exited, another may be starting for this long after its last heartbeat.
_START_GRACE = timedelta(minutes=2)


def assess_health(status: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the workspace is healthy, and a line: its state, or the most urgent problem."""
    problems = list_problems(status)
    if problems:
        return False, problems[0]
    return _assess_live_process(status)


def list_problems(status: Mapping[str, Any]) -> list[str]:
    """All problems, the most urgent first. Each states the remedy."""
    return list(_find_problems(status))


def list_process_problems(status: Mapping[str, Any]) -> list[str]:
    """The problems of processes. `status`: needs `processes`, `restarts` and `recalls` only."""
    return list(_find_process_problems(status))


def is_live_available(connection: sql.Connection) -> bool:
    """Whether a live process runs or will run soon.

    It may be starting after another has exited, or `moirae up` may be about to start it.
    """
    processes = _by_role(list_processes(connection))
    if _is_alive(processes.get("up")):
        return True
    return "live" in processes and _may_be_running(processes["live"])


def assess_live_condition(processes: Sequence[Mapping[str, Any]]) -> LiveCondition:
    """Whether the live process evaluates rows now, or will soon.

    It is starting from the start of `moirae up`: it needs seconds before it says so itself.
    """
    by_role = _by_role(processes)
    live, supervisor = by_role.get("live"), by_role.get("up")
    known_at = None if live is None else live["beat_at"]
    is_supervised = _is_alive(supervisor)
    if supervisor is not None and is_supervised and supervisor["state"] == "running":
        started_at = supervisor["started_at"]
        is_fresh = utc_now() - started_at < _START_GRACE
        if is_fresh and (known_at is None or known_at < started_at):
            return "starting"
    if live is None or live["state"] == "failed" or not _may_be_running(live):
        return "stopped"
    if live["state"] == "starting":
        return "starting"
    if live["alive"]:
        return "running"
    return "late" if is_supervised else "stopped"


def describe_liveness(process: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """`yes`, `no`, or `late`: without a heartbeat, which is not a problem yet."""
    if process["alive"]:
        return "yes"
    has_ended = process["state"] in ("ended", "failed")
    if has_ended or _has_failed(process, status["processes"]):
        return "no"
    processes = _by_role(status["processes"])
    if process["role"] == "live" and not _may_be_running(process):
        return "no"
    expected_with = "live" if process["role"] == "up" else "up"
    return "late" if _is_alive(processes.get(expected_with)) else "no"


def _find_problems(status: Mapping[str, Any]) -> Iterator[str]:
    if not is_balanced(status["accounting"]):
        yield (
            "accounting mismatch: not every record read is archived, a duplicate or a dead letter: "
            "run `moirae doctor`"
        )
    for disk in map(DiskSpace.from_json, status["disks"]):
        if disk.full:
            yield disk.describe_problem()
    yield from find_rewrite_problems(status["column_rewrites"])
    set_aside_problem = find_set_aside_problem(status["set_aside"])
    if set_aside_problem is not None:
        yield set_aside_problem
    yield from find_topic_problems(status)
    yield from find_rule_problems(status)
    if status["rule_files"]["problems"]:
        first_problem = status["rule_files"]["problems"][0]
        yield f"rule files rejected, the previous rules stay in use: {first_problem}"
    yield from find_notification_problems(status)
    for relation in status["relation_errors"]:
        yield (
            f"relation {relation['relation']}: its source cannot be read, the last version stays "
            f"in use: {relation['error']}"
        )
    yield from find_held_relations(status)
    backup_problem = find_backup_problem(status)
    if backup_problem is not None:
        yield backup_problem
    if status["damaged_files"]:
        first = status["damaged_files"][0]
        yield (
            f"{len(status['damaged_files']):,} damaged data files, such as {first['table_name']}/"
            f"{first['problem']}: see `moirae doctor --repair --dry-run`"
        )
    if status["maintenance_errors"]:
        first = status["maintenance_errors"][0]
        chunks = {error["chunk"] for error in status["maintenance_errors"]}
        yield (
            f"maintenance of {len(chunks):,} chunks fails, their files stay as "
            f"they are: chunk {first['chunk']}: {first['task']}: {_shorten(first['error'])}"
        )
    if status["unfinished_erasures"]:
        yield (
            f"{status['unfinished_erasures']:,} erasures are not finished: run `moirae archive erase "
            "--continue`"
        )
    yield from _find_process_problems(status)


def find_held_relations(status: Mapping[str, Any]) -> Iterator[str]:
    """A problem for each relation of which a version is held back."""
    for version in status["held_relations"]:
        remedy = f"check its source, or run `moirae relations accept {version['relation']}`"
        if version["accepted"]:
            remedy = "it is accepted, and used once `moirae up` runs"
        yield (
            f"relation {version['relation']}: a version with {version['rows']:,} rows is held back, the "
            f"one with {version['rows_in_use']:,} rows stays in use: {remedy}"
        )


def _find_process_problems(status: Mapping[str, Any]) -> Iterator[str]:
    failed_roles: set[str] = set()
    for process in status["processes"]:
        if _has_failed(process, status["processes"]):
            failed_roles.add(process["role"])
            error = _shorten(process["error"])
            yield f"the {process['role']} process is not running: {error}"
    yield from find_crash_loops(
        [restart for restart in status["restarts"] if restart["process"] not in failed_roles]
    )
    is_healthy, message = _assess_live_process(status)
    if not is_healthy and "live" not in failed_roles:
        yield message


def _shorten(error: str) -> str:
    """The first line of an error, which may have a line for each problem of a file."""
    first_line, *more_lines = error.splitlines() or [""]
    if not more_lines:
        return first_line
    return f"{first_line} (and {len(more_lines):,} more lines, see `moirae status -o json`)"


def _has_failed(process: Mapping[str, Any], processes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a process ended with an error and none of its role has run since.

    While `moirae up` runs, only errors since its start count. Without it, only the live process is
    expected to run.
    """
    if process["error"] is None:
        return False
    supervisor = _by_role(processes).get("up")
    if supervisor is not None and _is_alive(supervisor):
        return bool(process["failed_at"] >= supervisor["started_at"])
    return bool(process["role"] == "live" and process["state"] == "failed")


def _assess_live_process(status: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the live process runs or has stopped as expected, and a line about it."""
    processes = _by_role(status["processes"])
    live = processes.get("live")
    is_supervised = _is_alive(processes.get("up"))
    if live is None:
        if is_supervised:
            return True, "starting"
        return True, "not started: run `moirae up`"
    if live["state"] == "ended":
        return _assess_ended(status, processes)
    if live["alive"]:
        return True, f"live process {live['state']}, all records accounted for"
    silent = (utc_now() - live["beat_at"]).total_seconds()
    if not is_supervised:
        return False, (
            f"no heartbeat from the live process for {silent:.0f} s: "
            "start `moirae up`, or check its log"
        )
    if _may_be_running(live):
        return True, _describe_silent_process(live, silent)
    return False, f"no heartbeat from the live process for {silent:.0f} s: check its log"


def _describe_silent_process(live: Mapping[str, Any], silent: float) -> str:
    """A live process that may be busy. `silent`: seconds since its last heartbeat."""
    if live["state"] == "starting":
        # Its only heartbeat was at the start.
        return f"live process starting for {silent:.0f} s"
    return f"live process {live['state']}, no heartbeat for {silent:.0f} s"


def _assess_ended(
    status: Mapping[str, Any], processes: Mapping[str, Mapping[str, Any]]
) -> tuple[bool, str]:
    """The same for a live process that has ended normally."""
    supervisor = processes.get("up")
    open_recalls = status["recalls"].get("waiting", 0) + status["recalls"].get("running", 0)
    if _is_alive(processes.get("recall")) and open_recalls:
        return True, f"all input evaluated, {open_recalls:,} recalls open"
    if _has_supervisor_crashed(supervisor, processes["live"]):
        return False, "`moirae up` crashed and its processes stopped: start it again"
    if _is_alive(supervisor):
        return True, "restarting"
    return True, "not running: stopped normally"


def _by_role(processes: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {process["role"]: process for process in processes}


def _is_alive(process: Mapping[str, Any] | None) -> bool:
    return process is not None and bool(process["alive"])


def _has_supervisor_crashed(supervisor: Mapping[str, Any] | None, live: Mapping[str, Any]) -> bool:
    """Whether `moirae up` stopped without recording its end while a live process ran."""
    if supervisor is None or supervisor["alive"] or supervisor["state"] == "ended":
        return False
    return bool(live["started_at"] <= supervisor["beat_at"])


def _may_be_running(live: Mapping[str, Any]) -> bool:
    return bool(live["state"] != "ended" and utc_now() - live["beat_at"] < _START_GRACE)
