"""How a workspace is: gathered from the database, judged in one line."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.ingest import Catalog
from archiver.storage import StorageRoot
from archiver.times import optional_datetime
from moirae.config import Settings
from moirae.deployments import RuleRegistry
from moirae.history import list_derived_progress, list_index_progress, list_view_progress
from moirae.runtime import DiskSpace, connect_database, list_processes, open_storage
from moirae.runtime import describe_disk_problem as disk_problem

# The newest charges against rules that are told.
_MAX_RULE_ERRORS = 20
# Another live process may be starting in the place of one that fell, for so long after that one's last sign of life.
_START_GRACE = timedelta(minutes=2)
# Counters of dead letters, by reason.
DEAD_LETTER_COUNTERS = ("malformed", "quarantined", "conflicts", "expired")


def collect_status(
    connection: Connection[Any], storage: StorageRoot, disks: Sequence[DiskSpace] = ()
) -> dict[str, Any]:
    """Everything `moirae status` tells; `accounting` in total and by stream. `root`: of the archive. docs/status.md
    describes the fields."""
    catalog = Catalog(connection)
    accounts = catalog.accounting()
    progress = catalog.stream_progress()
    streams = {
        account["stream"]: {
            "accounting": sum_accounting([account]),
            **{
                name: account[name]
                for name in (*DEAD_LETTER_COUNTERS, "late", "forgotten", "units", "open_units")
            },
            "newest": optional_datetime(progress[account["stream"]].newest),
            "advanced": optional_datetime(progress[account["stream"]].advanced),
        }
        for account in accounts
    }
    with connection.cursor(row_factory=dict_row) as cursor:
        counts = cursor.execute(sql.load("alerts")["counts"]).fetchone()
    assert counts is not None
    chunks = catalog.chunks()
    registry = RuleRegistry(connection)
    files = registry.rule_files_state()
    return {
        "accounting": sum_accounting(accounts),
        "streams": streams,
        "events": {"settled": counts["settled_events"], "detected": counts["detected_events"]},
        "alerts": counts["alerts"],
        "recalls": dict(connection.execute(sql.load("recalls")["counts"]).fetchall()),
        "recalls_waiting": _waiting_recalls(connection),
        "rules": [vars(d) for d in registry.deployments()],
        "rule_errors": [vars(e) for e in registry.errors()[:_MAX_RULE_ERRORS]],
        "past": list_view_progress(connection),
        "derived": list_derived_progress(connection),
        "indexes": list_index_progress(connection, storage),
        "cut_contexts": dict(connection.execute(sql.load("contexts")["count_cut"]).fetchall()),
        "relation_errors": _relation_errors(connection),
        "rule_files": {"looked_at": files.looked_at, "problems": files.problems or []},
        "chunks": {
            state: sum(c.state == state for c in chunks)
            for state in ("present", "recent", "old", "expired")
        },
        "processes": list_processes(connection),
        "disks": [disk.to_json() for disk in disks],
    }


def _relation_errors(connection: Connection[Any]) -> list[dict[str, Any]]:
    """Relations whose source could not be read when it was read last, and since when that is so."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.load("relations")["errors"]).fetchall()


def _waiting_recalls(connection: Connection[Any]) -> dict[str, Any]:
    """Recalls that wait for their turn, some of them with a first answer, and for how many seconds."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(sql.load("recalls")["deferred"]).fetchone()
    assert found is not None
    return found


def is_live_available(connection: Connection[Any]) -> bool:
    """Whether a live process runs, may be starting in the place of one that fell, or will be started by `moirae up`."""
    known = {process["role"]: process for process in list_processes(connection)}
    return _is_alive(known.get("up")) or ("live" in known and _may_be_running(known["live"]))


def _is_alive(process: Mapping[str, Any] | None) -> bool:
    return process is not None and bool(process["alive"])


def _has_supervisor_crashed(up: Mapping[str, Any] | None, live: Mapping[str, Any]) -> bool:
    """Whether `moirae up` has ended without a word while a live process ran."""
    return (
        up is not None
        and not up["alive"]
        and up["state"] != "ended"
        and bool(live["started_at"] <= up["beat_at"])
    )


def _may_be_running(live: Mapping[str, Any]) -> bool:
    return bool(live["state"] != "ended" and datetime.now(UTC) - live["beat_at"] < _START_GRACE)


def sum_accounting(accounts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """`read`, and what became of it."""
    total = {name: sum(a[name] for a in accounts) for name in ("read", "archived", "duplicates")}
    return {
        **total,
        "dead_lettered": sum(a[name] for a in accounts for name in DEAD_LETTER_COUNTERS),
    }


def is_balanced(account: Mapping[str, int]) -> bool:
    """Whether every record read is archived, a duplicate or a dead letter."""
    return account["read"] == account["archived"] + account["duplicates"] + account["dead_lettered"]


def assess_health(status: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether all is well, and in one line what is or the first thing that is not."""
    found = list_problems(status)
    return (False, found[0]) if found else _live_verdict(status)


def list_problems(status: Mapping[str, Any]) -> list[str]:
    """Everything that is not well, the most urgent first; each says what to do."""
    found = []
    if not is_balanced(status["accounting"]):
        found.append("the accounting does not hold: run `moirae doctor`")
    found += [disk_problem(disk) for disk in map(DiskSpace.from_json, status["disks"]) if disk.full]
    quarantined = [r["rule"] for r in status["rules"] if r["state"] == "quarantined"]
    if quarantined:
        found.append(
            f"quarantined, not judged any more: {', '.join(quarantined)} (see `moirae rules list`)"
        )
    refused = status["rule_files"]["problems"]
    if refused:
        found.append(f"the rule files are not applied, the rules before run on: {refused[0]}")
    found += [
        f"the relation {failed['relation']} cannot be read, the rows read before stay in use: {failed['error']}"
        for failed in status["relation_errors"]
    ]
    failed = [process for process in status["processes"] if _failed(process, status["processes"])]
    found += [
        f"the {process['role']} process does not run: {_first_line(process['error'])}"
        for process in failed
    ]
    live_well, words = _live_verdict(status)
    if not live_well and all(process["role"] != "live" for process in failed):
        found.append(words)
    return found


def _first_line(error: str) -> str:
    """Of an error of several lines, such as one for each fault of a file."""
    first, *others = error.splitlines() or [""]
    return f"{first} (and {len(others):,} more lines, see `status -o json`)" if others else first


def _failed(process: Mapping[str, Any], processes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a process has ended with an error since `moirae up` was started, and none has run since. Without `up`
    only the live process is expected to run."""
    if process["error"] is None:
        return False
    up = next((other for other in processes if other["role"] == "up"), None)
    if up is not None and _is_alive(up):
        return bool(process["failed_at"] >= up["started_at"])
    return bool(process["role"] == "live" and process["state"] == "failed")


def _live_verdict(status: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the live process runs as it should, and in one line what it does."""
    known = {process["role"]: process for process in status["processes"]}
    live, supervised = known.get("live"), _is_alive(known.get("up"))
    if live is None:
        return (
            True,
            "starting" if supervised else "nothing has run here yet: start it with `moirae up`",
        )
    if live["state"] == "ended":
        open_ = sum(status["recalls"].get(state, 0) for state in ("waiting", "running"))
        if _is_alive(known.get("recall")) and open_:
            return True, f"all input is judged; {open_:,} recalls are still to be answered"
        if _has_supervisor_crashed(known.get("up"), live):
            return False, "`moirae up` has fallen, and what it ran has ended: start it again"
        return True, "starting again" if supervised else "not running; ended in good order"
    if not live["alive"]:
        silent = (datetime.now(UTC) - live["beat_at"]).total_seconds()
        if supervised and _may_be_running(live):
            return (
                True,
                f"the live process is {live['state']}, and has been busy for {silent:.0f} s",
            )
        advice = (
            "look at its messages"
            if supervised
            else "start it with `moirae up`, or look at its messages"
        )
        return False, f"the live process has given no sign of life for {silent:.0f} s: {advice}"
    return True, f"running ({live['state']}), every record accounted for"


def print_summary(settings: Settings) -> int:
    """After a drain: what came of it. Returns 1 where a recall failed or the accounting does not hold."""
    with connect_database(settings, "summary") as connection:
        status = collect_status(connection, open_storage(settings))
    account, alerts = status["accounting"], status["alerts"]
    dead = account["dead_lettered"]
    recalls = status["recalls"]
    print(
        f"{account['read']:,} records read: {account['archived']:,} archived, {account['duplicates']:,} duplicates, "
        f"{dead:,} dead letters{' (see `moirae dead-letters list`)' if dead else ''}\n"
        f"{status['events']['settled']:,} events, {alerts.get('resolved', 0) + alerts.get('firing', 0):,} alerts, "
        f"{recalls.get('done', 0) + recalls.get('finalized', 0):,} recalls answered"
    )
    if recalls.get("failed"):
        print(
            f"{recalls['failed']:,} recalls failed: see `moirae recalls list --state failed`",
            file=sys.stderr,
        )
        return 1
    if not is_balanced(account):
        print("the accounting does not hold: run `moirae doctor`", file=sys.stderr)
        return 1
    return 0
