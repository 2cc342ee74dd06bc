"""Changes of alerts, recalls, revisions and boundaries as server-sent events.

The ID of an event is the position of its change in the log of changes. Readers of revisions go
through `read_changes` alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import sql
from moirae.alerts import ChangeLog, format_position, select_last
from moirae.services import to_json
from moirae.services.operations.recalls import RecallRevision, describe_revision, describe_stage
from sql.reports import (
    ChangedAlertRow,
    ChangedRecallRow,
    ChangeGateway,
    ChangePosition,
    ChangeRow,
    EventEndRow,
)

MAX_EVENT_BYTES = 256 << 10
"""A larger event is sent without its answer, which the client can get by `recalls/{id}/revisions`
or `events/{id}/recalls`."""
MAX_PAGE_BYTES = 256 << 10
"""Events are read until they have this size: at most one event more than that."""
# Of an answer as text of PostgreSQL, which has more spaces than an event. Larger ones are not read.
_MAX_ANSWER_BYTES = 2 * MAX_EVENT_BYTES
_ANSWER = ("rows", "hits", "estimates", "forecast", "comparable", "match")


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event for clients. `eid`: the event that it is about; None: none, as of a status."""

    kind: str
    data: bytes
    position: ChangePosition | None = None
    eid: UUID | None = None

    def encode(self) -> bytes:
        """The lines of the event. JSON has no line breaks."""
        lines = b""
        if self.position is not None:
            lines = f"id: {format_position(self.position)}\n".encode()
        return lines + f"event: {self.kind}\n".encode() + b"data: " + self.data + b"\n\n"


def read_changes(
    connection: sql.Connection,
    after: ChangePosition,
    *,
    limit: int,
    upto: ChangePosition | None = None,
) -> tuple[list[LiveEvent], ChangePosition]:
    """The events after a position, in order, and the position of the last change that was read.

    At most `MAX_PAGE_BYTES` and one event, so that the memory of a client that has missed many
    answers is bounded. `limit`: of changes. `upto`: the last position to read; None: the newest.
    """
    changes = ChangeLog(connection).list_after(after, limit=limit, upto=upto)
    events = []
    size = 0  # bytes
    position = after
    for event_position, event in _describe(connection, changes):
        position = event_position
        if event is not None:
            events.append(event)
            size += len(event.data)
        if size >= MAX_PAGE_BYTES:
            break
    return events, position


def _describe(
    connection: sql.Connection, changes: Sequence[ChangeRow]
) -> Iterator[tuple[ChangePosition, LiveEvent | None]]:
    """The position and the event of each change; None for a change without an event."""
    rows = _ChangedRows(connection, changes)
    for change, is_reported in select_last(changes):
        yield change.position, rows.describe(change) if is_reported else None


class _ChangedRows:
    """The rows that changes name. Answers, which may be large, are read one by one."""

    def __init__(self, connection: sql.Connection, changes: Sequence[ChangeRow]) -> None:
        self._connection = connection
        by_kind: dict[str, list[ChangeRow]] = {}
        for change in changes:
            by_kind.setdefault(change.kind, []).append(change)
        gateway = self._gateway = ChangeGateway(connection)
        self._alerts = ChangeLog(connection).read_alerts(changes)
        recalls = gateway.list_recalls([change.key for change in by_kind.get("recall", ())])
        self._recalls = {row.id: row for row in recalls}
        boundaries = gateway.list_boundaries(
            [(change.key, change.version or "") for change in by_kind.get("boundary", ())]
        )
        self._boundaries = {(row.eid, row.version): row for row in boundaries}

    def describe(self, change: ChangeRow) -> LiveEvent | None:
        """The event of a change; None if its row has been deleted."""
        match change.kind:
            case "alert":
                return _encode_row(change, self._alerts.get(change.key))
            case "recall":
                return _encode_row(change, self._recalls.get(change.key))
            case "revision":
                row = self._gateway.get_revision(
                    change.key, change.number or 0, max_bytes=_MAX_ANSWER_BYTES
                )
                if row is None:
                    return None
                revision = describe_revision(self._connection, row)
                return _encode_revision(revision, change.position, row.answer is None)
            case "stage":
                stage = self._gateway.get_stage(
                    change.key,
                    change.version or "",
                    change.name or "",
                    max_bytes=_MAX_ANSWER_BYTES,
                )
                if stage is None:
                    return None
                revision = describe_stage(stage)
                return _encode_revision(revision, change.position, stage.rows is None)
            case "boundary":
                return _encode_row(change, self._boundaries.get((change.key, change.version or "")))
        return None  # of a later version


def _encode_row(
    change: ChangeRow, row: ChangedAlertRow | ChangedRecallRow | EventEndRow | None
) -> LiveEvent | None:
    if row is None:
        return None
    return LiveEvent(change.kind, to_json(row), change.position, row.eid)


def _encode_revision(
    revision: RecallRevision, position: ChangePosition, is_omitted: bool
) -> LiveEvent:
    """The event of an answer. `is_omitted`: the answer was too large to be read."""
    data = to_json(revision)
    if is_omitted or len(data) > MAX_EVENT_BYTES:
        summary = {name: value for name, value in vars(revision).items() if name not in _ANSWER}
        data = to_json({**summary, "omitted": True})
    return LiveEvent("revision", data, position, revision.eid)
