"""The status of a workspace, gathered from its database."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import sql
from archiver.chunks import ChunkState
from archiver.clock import utc_now
from archiver.ingest import Catalog
from archiver.ingest.classify import latest
from archiver.storage import StorageRoot
from archiver.times import optional_datetime
from moirae.config import BackupSettings, Settings
from moirae.errors import Unreachable
from moirae.history import list_index_progress, list_view_progress
from moirae.inspect.accounting import DEAD_LETTER_COUNTERS, is_balanced, sum_accounting
from moirae.inspect.backups import describe_backups
from moirae.inspect.health import assess_live_condition, find_held_relations
from moirae.inspect.incomplete_rules import describe_incomplete_rules, list_incomplete_rules
from moirae.inspect.lost_verdicts import describe_lost_verdicts, list_lost_verdicts
from moirae.inspect.notifications import collect_notification_status
from moirae.inspect.report import SetAsideStatus
from moirae.inspect.restarts import describe_exit, list_restarts
from moirae.inspect.rows_ahead import describe_rows_ahead
from moirae.inspect.set_aside import find_set_aside_problem, list_set_aside
from moirae.inspect.stored_bytes import describe_stored_bytes
from moirae.inspect.topics import (
    find_topic_problems,
    list_source_errors,
    list_unacknowledged_losses,
)
from moirae.inspect.unread_input import list_unread_input
from moirae.runtime import connect_database, list_processes, list_waiting_processes
from moirae.runtime.storage import DiskSpace, open_storage
from sql.alerts import AlertGateway
from sql.archive import (
    ChunkGateway,
    ColumnRewriteGateway,
    DerivedChunkGateway,
    ErasureGateway,
    FileCheckGateway,
    RelationGateway,
    SkippedRecordsGateway,
    StreamCounts,
    UnitGateway,
)
from sql.events import ContextGateway
from sql.processes import ProcessExitGateway, ProcessExitRow
from sql.recalls import TaskGateway
from sql.rules import DeploymentGateway, RuleErrorGateway, RuleFileGateway

_MAX_RULE_ERRORS = 20  # newest errors of rules in the status
_CHUNK_STATES: tuple[ChunkState, ...] = ("present", "recent", "old", "expired")


def collect_status(
    connection: sql.Connection,
    storage: StorageRoot,
    disks: Sequence[DiskSpace] = (),
    backup: BackupSettings | None = None,
    keep: Mapping[str, timedelta | None] | None = None,
    keep_alerts: timedelta | None = None,
) -> dict[str, Any]:
    """All that `moirae status -o json` shows, except problems and warnings.

    docs/reference/status.md describes the fields. `storage`: the archive. `backup`: the schedule of
    backups. `keep`: the retention of each stream. `keep_alerts`: that of alerts.
    """
    catalog = Catalog(connection)
    rule_files = RuleFileGateway(connection).get_state()
    rule_errors = RuleErrorGateway(connection).list_newest()[:_MAX_RULE_ERRORS]
    counts = AlertGateway(connection).count_by_state()
    relations = RelationGateway(connection)
    tasks = TaskGateway(connection)
    queue = tasks.waiting()
    skipped = _count_skipped(connection)
    stream_counts = UnitGateway(connection).sum_by_stream()
    chunk_states = Counter(chunk.state for chunk in catalog.chunks())
    now = utc_now()
    processes = list_processes(connection)
    failed = list_set_aside(connection)
    set_aside = [subject for subject in failed if subject["is_set_aside"]]
    rules = list(map(asdict, DeploymentGateway(connection).list_active()))
    return {
        "accounting": sum_accounting(stream_counts),
        "ingest": next((process["ingest"] for process in processes if process["ingest"]), None),
        "streams": _collect_streams(catalog, stream_counts, set_aside, skipped),
        "unmatched": skipped.get("", {}),
        "events": {"settled": counts.settled_events, "detected": counts.detected_events},
        "alerts": counts.alerts,
        "alerts_keep_seconds": None if keep_alerts is None else keep_alerts.total_seconds(),
        "recalls": tasks.count_by_state(),
        "recall_queue": {
            "queued": queue.waiting,
            "answered": queue.with_answer,
            "oldest_seconds": queue.longest,
        },
        "rules": rules,
        "incomplete_rules": list_incomplete_rules(rules),
        "rule_errors": list(map(asdict, rule_errors)),
        "lost_verdicts": list_lost_verdicts(connection),
        "history": list_view_progress(connection),
        "derived": list(map(asdict, DerivedChunkGateway(connection).list_progress())),
        "indexes": list_index_progress(connection, storage),
        "truncated_contexts": ContextGateway(connection).count_truncated(),
        "relation_errors": list(map(asdict, relations.list_errors())),
        "held_relations": list(map(asdict, relations.list_held())),
        "column_rewrites": list(map(asdict, ColumnRewriteGateway(connection).list_all())),
        "source_errors": list_source_errors(connection),
        "lost_records": list_unacknowledged_losses(connection),
        "set_aside": set_aside,
        "retrying": [subject for subject in failed if not subject["is_set_aside"]],
        "notifications": collect_notification_status(connection),
        "rule_files": {
            "checked_at": rule_files.looked_at,
            "problems": rule_files.problems or [],
        },
        "chunks": {state: chunk_states[state] for state in _CHUNK_STATES},
        "live": assess_live_condition(processes),
        "processes": processes,
        "waiting_processes": list_waiting_processes(connection),
        "restarts": list_restarts(connection, processes, now),
        "unread_input": list_unread_input(connection, now),
        "backup": describe_backups(connection, backup),
        "damaged_files": list(map(asdict, FileCheckGateway(connection).list_problems())),
        "unfinished_erasures": ErasureGateway(connection).count_unfinished(),
        "maintenance_errors": list(map(asdict, ChunkGateway(connection).list_errors())),
        "disks": [disk.to_json() for disk in disks],
        "storage": describe_stored_bytes(connection, keep or {}),
    }


def _count_skipped(connection: sql.Connection) -> dict[str, dict[str, int]]:
    """Records of protocols that are no rows, by stream and reason; "": of no stream."""
    skipped: dict[str, dict[str, int]] = {}
    for row in SkippedRecordsGateway(connection).list_all():
        skipped.setdefault(row.stream, {})[row.reason] = row.records
    return skipped


def _collect_streams(
    catalog: Catalog,
    stream_counts: Sequence[StreamCounts],
    set_aside: Sequence[SetAsideStatus],
    skipped: Mapping[str, Mapping[str, int]],
) -> dict[str, dict[str, Any]]:
    """Counters and times of each stream of which something was read. `skipped`: see
    `_count_skipped`.
    """
    progress_by_stream = catalog.stream_progress()
    keys_ahead = catalog.keys_ahead()
    now = utc_now()
    set_aside_files = Counter(subject["stream"] for subject in set_aside)
    streams: dict[str, dict[str, Any]] = {}
    for counts in stream_counts:
        progress = progress_by_stream[counts.stream]
        streams[counts.stream] = {
            "accounting": sum_accounting([counts]),
            **{counter: getattr(counts, counter) for counter in DEAD_LETTER_COUNTERS},
            "late": counts.late,
            "deleted": counts.deleted,
            "erased": counts.erased,
            "erased_again": counts.erased_again,
            "skipped": {
                "tombstones": counts.tombstones,
                "punctuations": counts.punctuations,
                **skipped.get(counts.stream, {}),
            },
            "units": counts.units,
            "open_units": counts.open_units,
            "rewritten": counts.rewritten,
            "renamed": counts.renamed,
            "set_aside": set_aside_files[counts.stream],
            "newest": optional_datetime(progress.newest),
            "advanced_to": optional_datetime(latest(progress.advanced, progress.advanced_ahead)),
            "ahead": describe_rows_ahead(keys_ahead[counts.stream], counts.late_by_ahead, now),
        }
    return streams


def print_summary(settings: Settings, started_at: datetime) -> int:
    """Print the results of a drain that was started at a time.

    Returns 1 if a process ended by an error, if a verdict was lost, or for `find_drain_problems`.
    """
    with connect_database(settings, "summary") as connection:
        status = collect_status(connection, open_storage(settings))
        lost_verdicts = list_lost_verdicts(connection, started_at)
        exits = ProcessExitGateway(connection).list_recent(started_at)
    for line in _summarize(status):
        print(line)
    problems = [
        *_describe_exits(exits),
        *find_drain_problems(status),
        *map(describe_lost_verdicts, lost_verdicts),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _describe_exits(exits: Sequence[ProcessExitRow]) -> Iterator[str]:
    """The processes of a drain that ended by an error. What they did not finish was done again."""
    for process_exit in reversed(exits):
        # An outage of the database or storage is over, or the drain would not have ended.
        if process_exit.exit_code not in (0, Unreachable.exit_code):
            reason = describe_exit(process_exit)
            yield f"the {process_exit.role} process ended by an error and was restarted: {reason}"


def find_drain_problems(status: Mapping[str, Any]) -> list[str]:
    """Why a drain is not complete: failed recalls and rules, what is set aside, the accounting."""
    problems: list[str] = []
    failed = status["recalls"].get("failed", 0)
    if failed:
        problems.append(f"{failed:,} recalls failed: see `moirae recalls list --state failed`")
    problems += describe_incomplete_rules(status)
    set_aside_problem = find_set_aside_problem([*status["set_aside"], *status["retrying"]])
    if set_aside_problem is not None:
        problems.append(set_aside_problem)
    problems += find_held_relations(status)
    problems += find_topic_problems(status)
    if not is_balanced(status["accounting"]):
        problems.append("accounting mismatch: run `moirae doctor`")
    return problems


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
