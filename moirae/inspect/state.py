"""The state of a workspace in short: what probes of the server show."""

from typing import Any

import sql
from archiver.clock import utc_now
from moirae.inspect.health import list_process_problems
from moirae.inspect.report import StateReport
from moirae.inspect.restarts import list_restarts
from moirae.inspect.set_aside import find_set_aside_problem, list_set_aside
from moirae.inspect.topics import (
    find_topic_problems,
    list_source_errors,
    list_unacknowledged_losses,
)
from moirae.inspect.unread_input import list_unread_input
from moirae.runtime import list_processes


def collect_state(connection: sql.Connection) -> StateReport:
    """Problems of processes and of input, restarts, and how long input waits."""
    now = utc_now()
    processes = list_processes(connection)
    restarts = list_restarts(connection, processes, now)
    status: dict[str, Any] = {"processes": processes, "restarts": restarts, "recalls": {}}
    problems = list_process_problems(status)
    set_aside = [subject for subject in list_set_aside(connection) if subject["is_set_aside"]]
    set_aside_problem = find_set_aside_problem(set_aside)
    if set_aside_problem is not None:
        problems.append(set_aside_problem)
    topics = {
        "source_errors": list_source_errors(connection),
        "lost_records": list_unacknowledged_losses(connection),
    }
    problems += find_topic_problems(topics)
    return StateReport(
        state="problem" if problems else "ok",
        problems=problems,
        restarts=restarts,
        unread_input=list_unread_input(connection, now),
    )
