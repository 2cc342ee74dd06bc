"""The fields of the status of a workspace, as docs/reference/status.md describes them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

LiveCondition = Literal["running", "starting", "late", "stopped"]
"""Of the live process. `late`: without a heartbeat for 15 seconds, which is no problem yet."""


class Accounting(TypedDict):
    """Numbers of records."""

    read: int
    archived: int
    duplicates: int
    dead_lettered: int


class KeyAheadStatus(TypedDict):
    """A key whose rows were ahead of the clock within the last hour, `at` last.

    `key`: texts by column. `ahead_seconds`: how far its newest row was ahead then.
    """

    key: Mapping[str, str | None]
    ahead_seconds: float
    at: datetime


class RowsAheadStatus(TypedDict):
    """Rows ahead of the clock: up to ten keys, the furthest first.

    `late`: number of other rows that are late because the watermark followed rows ahead.
    """

    late: int
    keys: Sequence[KeyAheadStatus]


@with_config(ConfigDict(extra="allow"))
class StreamStatus(TypedDict):
    """Counters and times of a stream. Dead letters by reason.

    `rewritten`: files of the ledger that were changed after they were read; `renamed`: those that
    were renamed, and read again. `erased`: of the deleted rows, those that were erased on request;
    `erased_again`: of the duplicates, those that repeat one of them.
    """

    accounting: Accounting
    malformed: int
    quarantined: int
    conflicts: int
    expired: int
    late: int
    deleted: int
    erased: int
    erased_again: int
    skipped: Mapping[str, int]
    units: int
    open_units: int
    rewritten: int
    renamed: int
    set_aside: int
    newest: datetime | None
    advanced_to: datetime | None
    ahead: RowsAheadStatus


@with_config(ConfigDict(extra="allow"))
class ProcessStatus(TypedDict):
    """The last process of a role: the fields of `sql.ProcessRow`."""

    role: str
    epoch: int
    pid: int
    machine: str
    started_at: datetime
    beat_at: datetime
    state: str
    first_commit_seconds: float | None
    error: str | None
    failed_at: datetime | None
    ingest: Mapping[str, Any] | None
    alive: bool


class WaitingProcess(TypedDict):
    """A process that waits for a role which another machine holds: a row of `sql.WaitingRow`."""

    role: str
    machine: str
    pid: int
    started_at: datetime


class SetAsideStatus(TypedDict):
    """A file, stream, relation, rule or topic that failed at the last try.

    `stream`: of a file, else empty. `is_set_aside`: false while it is tried at intervals. Of rules
    in quarantine no times are known.
    """

    kind: str
    stream: str
    name: str
    reason: str
    tries: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    set_aside_at: datetime | None
    is_set_aside: bool
    retry_requested: bool


class IncompleteRule(TypedDict):
    """A rule that failed or is in quarantine, and has not evaluated rows from `since` on.

    `since`: event time; None: no rows at all. `reason`: in one line.
    """

    rule: str
    state: Literal["failed", "quarantined"]
    since: datetime | None
    reason: str


class RestartStatus(TypedDict):
    """A role of which a process ended by an error within a day.

    `last_hour`, `last_day`: number of such ends. `exit_code`, `signal`: of the last one, None if
    unknown. `is_crash_loop`: three within an hour, or its successor has not run for 10 minutes.
    `ends_at`: when the crash loop ends if the running process works until then; None without a
    crash loop, or before the process has been started again.
    """

    process: str
    last_hour: int
    last_day: int
    last_ended_at: datetime
    exit_code: int | None
    signal: int | None
    reason: str
    is_crash_loop: bool
    ends_at: datetime | None


class UnreadInputStatus(TypedDict):
    """A stream with input that is not archived.

    `oldest_at`: when the oldest of it arrived, `waiting_seconds` ago. `checked_at`: when the live
    process last looked.
    """

    stream: str
    oldest_at: datetime
    waiting_seconds: float
    checked_at: datetime


class StateReport(TypedDict):
    """The state in short: of processes and input. `unknown`: the database does not answer."""

    state: Literal["ok", "problem", "unknown"]
    problems: Sequence[str]
    restarts: Sequence[RestartStatus]
    unread_input: Sequence[UnreadInputStatus]


class ColumnRewriteStatus(TypedDict):
    """A stream whose files are rewritten for changed columns; its new input waits.

    `state`: checking, rewriting, failing or refused. `steps`: of the state. `bytes_needed`: of the
    files that are not written yet.
    """

    stream: str
    columns: Sequence[str]
    state: str
    steps_done: int
    steps: int
    bytes_needed: int
    reason: str | None
    started_at: datetime
    updated_at: datetime


class EventCounts(TypedDict):
    """Numbers of events."""

    settled: int
    detected: int


class RecallQueue(TypedDict):
    """Interactive recalls that wait."""

    queued: int
    answered: int
    oldest_seconds: float


class RuleFileStatus(TypedDict):
    """The rule files as last loaded."""

    checked_at: datetime | None
    problems: Sequence[str]


class SourceErrorStatus(TypedDict):
    """Why the topic of a stream cannot be read now. `kind`: brokers away, topic missing, or other."""

    stream: str
    kind: Literal["away", "missing", "failed"]
    error: str
    since: datetime


class LostRecordsStatus(TypedDict):
    """Records of a partition that were lost before they were read.

    `last_offset` None: it is not known how many there were.
    """

    id: int
    stream: str
    topic: str
    partition: str
    first_offset: int
    last_offset: int | None
    reason: Literal["deleted", "recreated", "truncated", "removed"]
    noticed_at: datetime
    acknowledged_at: datetime | None


class BackupStatus(TypedDict):
    """Backups. `to` None: none are scheduled. `last`: the newest complete one. `failure`: a later
    attempt that failed.
    """

    to: str | None
    every_seconds: float | None
    last: Mapping[str, Any] | None
    age_seconds: float | None
    failure: Mapping[str, Any] | None
    is_overdue: bool
    description: str


@with_config(ConfigDict(extra="allow"))
class NotificationStatus(TypedDict):
    """Messages to receivers. `problems`: of the workspace file, why it is not in force.

    `unread`: receivers whose acknowledgements cannot be read.
    """

    waiting: int
    given_up: int
    failing: Sequence[Mapping[str, Any]]
    unread: Sequence[Mapping[str, Any]]
    problems: Sequence[str]


class DamagedFileStatus(TypedDict):
    """A data file that is not what was written. `table_name`: its folder below the archive."""

    table_name: str
    path: str
    problem: str
    checked_at: datetime


class MaintenanceErrorStatus(TypedDict):
    """Maintenance of a chunk that failed at its last try; `task` as in the log."""

    chunk: int
    task: str
    error: str
    failed_at: datetime


class LostVerdictStatus(TypedDict):
    """Rows over which a rule has no verdict, because it exceeded its limits for them.

    `first_ts`, `last_ts`: their event times. `last_at`: when the last one was lost, and `reason`.
    """

    rule: str
    rows: int
    first_ts: datetime
    last_ts: datetime
    last_at: datetime
    reason: str


class StreamBytes(TypedDict):
    """The bytes of a stream by kind, see `docs/reference/status.md`.

    `bytes_per_day`: of its rows, for a day of event time, lately; null: no chunk is closed.
    `keep_seconds`: its retention; null: no end. `keep_bytes`: what its rows and summaries will take
    by then at this rate.
    """

    stream: str
    kinds: Mapping[str, int]
    bytes_per_day: float | None
    keep_seconds: float | None
    keep_bytes: int | None


class DayBytes(TypedDict):
    """The bytes of the rows of a stream in closed chunks, of one day of event time."""

    stream: str
    day: str
    bytes: int


class StoredBytesStatus(TypedDict):
    """What the workspace takes on disk. `measured_at`: null: not measured yet."""

    measured_at: datetime | None
    kinds: Mapping[str, int]
    streams: Sequence[StreamBytes]
    days: Sequence[DayBytes]


class StatusReport(TypedDict):
    """The status of a workspace."""

    accounting: Accounting
    streams: Mapping[str, StreamStatus]
    events: EventCounts
    alerts: Mapping[str, int]
    alerts_keep_seconds: float | None
    recalls: Mapping[str, int]
    recall_queue: RecallQueue
    rules: Sequence[Mapping[str, Any]]
    incomplete_rules: Sequence[IncompleteRule]
    rule_errors: Sequence[Mapping[str, Any]]
    lost_verdicts: Sequence[LostVerdictStatus]
    history: Mapping[str, Mapping[str, Any]]
    derived: Sequence[Mapping[str, Any]]
    indexes: Sequence[Mapping[str, Any]]
    truncated_contexts: Mapping[str, int]
    relation_errors: Sequence[Mapping[str, Any]]
    held_relations: Sequence[Mapping[str, Any]]
    column_rewrites: Sequence[ColumnRewriteStatus]
    source_errors: Sequence[SourceErrorStatus]
    lost_records: Sequence[LostRecordsStatus]
    set_aside: Sequence[SetAsideStatus]
    retrying: Sequence[SetAsideStatus]
    rule_files: RuleFileStatus
    notifications: NotificationStatus
    chunks: Mapping[str, int]
    live: LiveCondition
    processes: Sequence[ProcessStatus]
    waiting_processes: Sequence[WaitingProcess]
    restarts: Sequence[RestartStatus]
    unread_input: Sequence[UnreadInputStatus]
    backup: BackupStatus
    damaged_files: Sequence[DamagedFileStatus]
    maintenance_errors: Sequence[MaintenanceErrorStatus]
    unfinished_erasures: int
    disks: Sequence[Mapping[str, Any]]
    storage: StoredBytesStatus
