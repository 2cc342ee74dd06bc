"""The status of a workspace, gathered from its database."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from moirae.config import Settings
from moirae.inspect.health import is_balanced
from moirae.runtime import DiskSpace, connect_database, list_processes, open_storage

if TYPE_CHECKING:
    from archiver.chunks import ChunkState
    from archiver.ingest import Catalog
    from archiver.storage import StorageRoot

_MAX_RULE_ERRORS = 20  # newest errors of rules in the status
_CHUNK_STATES: tuple["ChunkState", ...] = ("present", "recent", "old", "expired")
# Counters of dead letters, by reason.
DEAD_LETTER_COUNTERS = ("malformed", "quarantined", "conflicts", "expired")


def collect_status(
    connection: Connection[Any], storage: "StorageRoot", disks: Sequence[DiskSpace] = ()
) -> dict[str, Any]:
    """All that `moirae status -o json` shows, except problems and warnings.

    docs/reference/status.md describes the fields. `storage`: the archive.
    """
    from archiver.ingest import Catalog
    from moirae.deployments import RuleRegistry
    from moirae.history import list_derived_progress, list_index_progress, list_view_progress

    catalog = Catalog(connection)
    registry = RuleRegistry(connection)
    rule_files = registry.rule_files_state()
    counts = _fetch_row(connection, "alerts", "counts")
    tasks = sql.TaskGateway(connection)
    queue = tasks.waiting()
    accounts = catalog.accounting()
    chunk_states = Counter(chunk.state for chunk in catalog.chunks())
    return {
        "accounting": sum_accounting(accounts),
        "streams": _collect_streams(catalog, accounts),
        "events": {"settled": counts["settled_events"], "detected": counts["detected_events"]},
        "alerts": counts["alerts"],
        "recalls": tasks.count_by_state(),
        "recall_queue": {
            "queued": queue.waiting,
            "answered": queue.with_answer,
            "oldest_seconds": queue.longest,
        },
        "rules": list(map(vars, registry.deployments())),
        "rule_errors": list(map(vars, registry.errors()[:_MAX_RULE_ERRORS])),
        "history": list_view_progress(connection),
        "derived": list_derived_progress(connection),
        "indexes": list_index_progress(connection, storage),
        "truncated_contexts": _fetch_counts(connection, "contexts", "count_cut"),
        "relation_errors": _fetch_rows(connection, "relations", "errors"),
        "rule_files": {
            "checked_at": rule_files.looked_at,
            "problems": rule_files.problems or [],
        },
        "chunks": {state: chunk_states[state] for state in _CHUNK_STATES},
        "processes": list_processes(connection),
        "disks": [disk.to_json() for disk in disks],
    }


def _collect_streams(
    catalog: "Catalog", accounts: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Counters and times of each stream of which something was read."""
    from archiver.times import optional_datetime

    progress_by_stream = catalog.stream_progress()
    streams: dict[str, dict[str, Any]] = {}
    for account in accounts:
        progress = progress_by_stream[account["stream"]]
        streams[account["stream"]] = {
            "accounting": sum_accounting([account]),
            **{reason: account[reason] for reason in DEAD_LETTER_COUNTERS},
            "late": account["late"],
            "deleted": account["forgotten"],
            "units": account["units"],
            "open_units": account["open_units"],
            "newest": optional_datetime(progress.newest),
            "advanced_to": optional_datetime(progress.advanced),
        }
    return streams


def _fetch_rows(connection: Connection[Any], gateway: str, query: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.load(gateway)[query]).fetchall()


def _fetch_row(connection: Connection[Any], gateway: str, query: str) -> dict[str, Any]:
    (row,) = _fetch_rows(connection, gateway, query)
    return row


def _fetch_counts(connection: Connection[Any], gateway: str, query: str) -> dict[str, int]:
    return dict(connection.execute(sql.load(gateway)[query]).fetchall())


def sum_accounting(accounts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Sums of records read, archived, duplicate and dead-lettered."""
    totals = {"read": 0, "archived": 0, "duplicates": 0, "dead_lettered": 0}
    for account in accounts:
        for name in ("read", "archived", "duplicates"):
            totals[name] += account[name]
        for reason in DEAD_LETTER_COUNTERS:
            totals["dead_lettered"] += account[reason]
    return totals


def print_summary(settings: Settings) -> int:
    """Print the results of a drain. Returns 1 if a recall failed or the accounting is off."""
    with connect_database(settings, "summary") as connection:
        status = collect_status(connection, open_storage(settings))
    for line in _summarize(status):
        print(line)
    failed = status["recalls"].get("failed", 0)
    if failed:
        print(
            f"{failed:,} recalls failed: see `moirae recalls list --state failed`", file=sys.stderr
        )
        return 1
    if not is_balanced(status["accounting"]):
        print("accounting mismatch: run `moirae doctor`", file=sys.stderr)
        return 1
    return 0


def _summarize(status: Mapping[str, Any]) -> tuple[str, str]:
    account = status["accounting"]
    alerts = status["alerts"]
    recalls = status["recalls"]
    alert_count = alerts.get("resolved", 0) + alerts.get("firing", 0)
    answered = recalls.get("done", 0) + recalls.get("finalized", 0)
    records = (
        f"{account['read']:,} records read: {account['archived']:,} archived, "
        f"{account['duplicates']:,} duplicates, {account['dead_lettered']:,} dead letters"
    )
    if account["dead_lettered"]:
        records += " (see `moirae dead-letters list`)"
    events = (
        f"{status['events']['settled']:,} events, {alert_count:,} alerts, "
        f"{answered:,} recalls answered"
    )
    return records, events
