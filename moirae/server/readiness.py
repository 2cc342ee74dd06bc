"""Readiness: whether posted rows are archived now."""

import sql
from moirae.errors import MoiraeError, RequestRejected
from moirae.runtime import list_processes
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.responses import DATABASE_UNREACHABLE


def live_process_is_running(connection: sql.Connection) -> bool:
    """Whether a live process sends heartbeats."""
    return any(
        process["role"] == "live" and process["alive"] for process in list_processes(connection)
    )


def list_readiness_problems(pool: ConnectionPool, ingest_handler: IngestHandler) -> list[str]:
    """Why posted rows are not archived now; none if they are."""
    problems = []
    try:
        with pool.connection() as connection:
            if not live_process_is_running(connection):
                problems.append("the live process is not running: posted rows wait to be archived")
    except RequestRejected:
        raise
    except MoiraeError:
        problems.append(DATABASE_UNREACHABLE)
    if ingest_handler.disk_is_full():
        problems.append("disk space is low: see `moirae status`")
    return problems
