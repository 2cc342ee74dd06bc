"""Processes that ended by an error and were started again: how often, why, and whether it goes on."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sql
from moirae.inspect.report import RestartStatus
from sql.processes import ProcessExitGateway, ProcessExitRow

# A process has ended by an error for good once its successor has worked for so long.
_MIN_UPTIME = timedelta(minutes=10)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MAX_FAILURES = 3  # of one role within an hour
_MAX_REASON_LENGTH = 300  # characters


def list_restarts(
    connection: sql.Connection, processes: Sequence[Mapping[str, Any]], now: datetime
) -> list[RestartStatus]:
    """The roles of which a process ended by an error within a day. `processes`: the last ones."""
    return summarize_exits(ProcessExitGateway(connection).list_recent(now - _DAY), processes, now)


def summarize_exits(
    exits: Sequence[ProcessExitRow], processes: Sequence[Mapping[str, Any]], now: datetime
) -> list[RestartStatus]:
    """See `list_restarts`. `exits`: newest first."""
    exits_by_role: dict[str, list[ProcessExitRow]] = {}
    for process_exit in exits:
        if process_exit.exit_code != 0:  # None: unknown, or a signal
            exits_by_role.setdefault(process_exit.role, []).append(process_exit)
    by_role = {process["role"]: process for process in processes}
    up = by_role.get("up")
    is_supervised = up is not None and bool(up["alive"])
    restarts: list[RestartStatus] = []
    for role, role_exits in sorted(exits_by_role.items()):
        last = role_exits[0]
        failures = sum(now - process_exit.ended_at < _HOUR for process_exit in role_exits)
        process = by_role.get(role)
        is_crash_loop = _is_crash_loop(last, failures, process, is_supervised, now)
        ends_at = None
        if is_crash_loop and process is not None and _is_successor(process, last):
            ends_at = _end_of_crash_loop(role_exits, process)
        restarts.append(
            RestartStatus(
                process=role,
                last_hour=failures,
                last_day=len(role_exits),
                last_ended_at=last.ended_at,
                exit_code=last.exit_code,
                signal=last.signal,
                reason=describe_exit(last),
                is_crash_loop=is_crash_loop,
                ends_at=ends_at,
            )
        )
    return restarts


def _is_crash_loop(
    last: ProcessExitRow,
    failures: int,
    process: Mapping[str, Any] | None,
    is_supervised: bool,
    now: datetime,
) -> bool:
    """Whether three processes ended within an hour, or the last one has no stable successor.

    `process`: the last one that took the role. A role that has ended in order since is in no loop.
    """
    if process is None or not _is_successor(process, last):
        return is_supervised  # to be started again
    has_predecessor = last.epoch is not None and process["epoch"] > last.epoch + 1
    if has_predecessor or process["state"] == "ended":
        return False  # the processes after the last error have ended in order
    return failures >= _MAX_FAILURES or now - process["started_at"] < _MIN_UPTIME


def _end_of_crash_loop(exits: Sequence[ProcessExitRow], process: Mapping[str, Any]) -> datetime:
    """When a crash loop ends if its process works until then. `exits`: of its role, newest first."""
    worked_enough: datetime = process["started_at"] + _MIN_UPTIME
    if len(exits) < _MAX_FAILURES:
        return worked_enough
    return max(worked_enough, exits[_MAX_FAILURES - 1].ended_at + _HOUR)


def _is_successor(process: Mapping[str, Any], last: ProcessExitRow) -> bool:
    if last.epoch is None:
        return bool(process["started_at"] > last.ended_at)
    return bool(process["epoch"] > last.epoch)


def describe_exit(process_exit: ProcessExitRow) -> str:
    """Why a process ended, in a line."""
    parts: list[str] = []
    if process_exit.signal is not None:
        parts.append(f"killed by signal {process_exit.signal}")
    elif process_exit.exit_code is not None:
        parts.append(f"exit code {process_exit.exit_code}")
    first_line = next(iter((process_exit.error or "").splitlines()), "")
    if first_line:
        parts.append(first_line)
    text = ": ".join(parts) or "it ended without storing a reason, perhaps killed"
    return text[:_MAX_REASON_LENGTH]


def find_crash_loops(restarts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each crash loop."""
    for restart in restarts:
        if not restart["is_crash_loop"]:
            continue
        times = restart["last_hour"]
        at = f"{restart['last_ended_at']:%Y-%m-%d %H:%M:%S}Z"
        when = f"at {at}" if times <= 1 else f"{times} times within an hour, last at {at}"
        yield (
            f"the {restart['process']} process ended by an error {when}: {restart['reason']}: "
            f"check its log; {_describe_end(restart['ends_at'])}"
        )


def _describe_end(ends_at: datetime | None) -> str:
    """Until when a crash loop is a problem."""
    if ends_at is None:
        minutes = int(_MIN_UPTIME.total_seconds() // 60)
        return f"status is OK again once the process has worked for {minutes} minutes"
    return f"status is OK again at {ends_at:%H:%M:%S}Z if the process works until then"
