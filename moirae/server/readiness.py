"""Readiness: whether rows that are posted, or sent to Kafka brokers, are archived now."""

import sql
from moirae.errors import MoiraeError, RequestRejected
from moirae.inspect import (
    assess_live_condition,
    collect_state,
    find_crash_loops,
    list_brokers_away,
    list_source_errors,
)
from moirae.runtime import list_processes
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.responses import DATABASE_UNREACHABLE

_LIVE_PROBLEMS = {
    "starting": "the live process is starting: posted rows wait to be archived",
    "late": "no heartbeat from the live process: posted rows may wait to be archived",
    "stopped": "the live process is not running: posted rows wait to be archived",
}


def live_process_is_running(connection: sql.Connection) -> bool:
    """Whether a live process sends heartbeats."""
    return any(
        process["role"] == "live" and process["alive"] for process in list_processes(connection)
    )


def list_readiness_problems(pool: ConnectionPool, ingest_handler: IngestHandler) -> list[str]:
    """Why rows are not archived now, or not reliably; none if they are."""
    problems: list[str] = []
    try:
        with pool.connection() as connection:
            condition = assess_live_condition(list_processes(connection))
            restarts = collect_state(connection)["restarts"]
            problems += list_brokers_away(list_source_errors(connection))
        problems += find_crash_loops(restarts)
        if condition != "running":
            problems.append(_LIVE_PROBLEMS[condition])
    except RequestRejected:
        raise
    except MoiraeError:
        problems.append(DATABASE_UNREACHABLE)
    if ingest_handler.disk_is_full():
        problems.append("disk space is low: see `moirae status`")
    return problems
