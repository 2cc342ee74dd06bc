"""Changes of alerts, recalls and revisions as server-sent events.

The ID of an event is the position of its change in the log of changes. Readers of revisions go
through `read_changes` alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sql
from moirae.services import to_json
from moirae.services.operations.recalls import describe_revision
from sql import ChangePosition

MAX_EVENT_BYTES = 256 << 10
"""A larger event is sent without its answer, which the client can get by `recalls/{id}/revisions`."""


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


def format_position(position: ChangePosition) -> str:
    """A position as the ID of an event."""
    return f"{position.xid}-{position.id}"


def parse_position(text: str) -> ChangePosition | None:
    """The position of an event's ID; None if it is not valid."""
    xid, _, number = text.partition("-")
    digits = xid + number
    is_valid = xid and number and digits.isascii() and digits.isdigit() and len(digits) < 36
    if not is_valid or max(int(xid), int(number)) >= 1 << 63:
        return None
    return ChangePosition(int(xid), int(number))


def read_changes(
    connection: sql.Connection,
    after: ChangePosition,
    *,
    limit: int,
    upto: ChangePosition | None = None,
) -> tuple[list[LiveEvent], ChangePosition]:
    """The events after a position, in order, and the position of the last change that was read.

    `limit`: of changes. `upto`: the last position to read; None: the newest.
    """
    changes = sql.ChangeGateway(connection).list_after(after, limit=limit)
    if upto is not None:
        changes = [change for change in changes if change.position <= upto]
    if not changes:
        return [], after
    return list(_describe(connection, changes)), changes[-1].position


def _describe(connection: sql.Connection, changes: Sequence[sql.ChangeRow]) -> Iterator[LiveEvent]:
    gateway = sql.ChangeGateway(connection)
    alerts = {row.id: row for row in gateway.list_alerts(_keys(changes, "alert"))}
    recalls = {row.id: row for row in gateway.list_recalls(_keys(changes, "recall"))}
    revision_keys = [
        (change.key, change.number)
        for change in changes
        if change.kind == "revision" and change.number is not None
    ]
    revisions = {(row.task, row.number): row for row in gateway.list_revisions(revision_keys)}
    last_of_row = {(change.kind, change.key): change.position for change in changes}
    for change in changes:
        # Alerts and recalls are sent as they are now: once, at their last change.
        is_last = last_of_row[change.kind, change.key] == change.position
        if change.kind == "revision":
            row = revisions.get((change.key, change.number or 0))
            if row is not None:
                yield _describe_revision(connection, row, change.position)
        elif change.kind == "alert" and change.key in alerts and is_last:
            alert = alerts[change.key]
            yield LiveEvent("alert", to_json(alert), change.position, alert.eid)
        elif change.kind == "recall" and change.key in recalls and is_last:
            yield from _describe_recall(recalls[change.key], change.position)


def _keys(changes: Sequence[sql.ChangeRow], kind: str) -> list[UUID]:
    return [change.key for change in changes if change.kind == kind]


def _describe_revision(
    connection: sql.Connection, row: sql.RevisionRow, position: ChangePosition
) -> LiveEvent:
    data = to_json(describe_revision(connection, row))
    if len(data) > MAX_EVENT_BYTES:
        summary: Mapping[str, Any] = {
            "recall": row.task,
            "eid": row.eid,
            "rule": row.rule,
            "name": row.recall,
            "kind": row.kind,
            "number": row.number,
            "final": row.final,
            "coverage": row.coverage,
            "omitted": True,
            "at": row.at,
        }
        data = to_json(summary)
    return LiveEvent("revision", data, position, row.eid)


def _describe_recall(row: sql.ChangedRecallRow, position: ChangePosition) -> Iterator[LiveEvent]:
    if row.open_recalls:
        yield LiveEvent("recall", to_json(row), position, row.eid)
        return
    # No recall of the event is open: no more revisions follow. Only the second event has the ID, so
    # that a client that has missed it gets both again.
    yield LiveEvent("recall", to_json(row), None, row.eid)
    boundary = {"eid": row.eid, "rule": row.rule}
    yield LiveEvent("boundary", to_json(boundary), position, row.eid)
