"""Messages to receivers: the outbox, and the log of what was delivered."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sql.gateway import Gateway
from sql.values import replace_nul, to_json_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    """A message. `content`: what is rendered. `alerts`: IDs of those that it names, and whether
    each is firing or resolved. `counted`: others that it counts. `state`: pending, or folded.
    """

    receiver: str
    group_key: str
    cause: str
    status: str
    content: Mapping[str, Any]
    alerts: Sequence[tuple[UUID, str]]
    state: str = "pending"
    counted: int = 0


@dataclass(frozen=True, slots=True)
class PendingNotificationRow:
    """A message that is not delivered yet."""

    id: int
    receiver: str
    group_key: str
    cause: str
    status: str
    content: Mapping[str, Any]
    attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FoldedNotificationRow:
    """A message that waits to be counted in a summary."""

    id: int
    cause: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NotificationRow:
    """A message and what became of it. `summary`: the message in which a folded one is counted."""

    id: int
    receiver: str
    group_key: str
    cause: str
    status: str
    alert_count: int
    state: str
    attempts: int
    created_at: datetime
    ended_at: datetime | None
    error: str | None
    summary: int | None


@dataclass(frozen=True, slots=True)
class AlertDeliveryRow:
    """That a receiver was told of an alert. `firing_at`, `resolved_at`: when it took the first message
    that says so, or the summary that counts it; None: it has not.
    """

    alert_id: UUID
    receiver: str
    firing_at: datetime | None
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class NotificationResult:
    """What became of attempts to deliver a message. `thread`: by which the receiver knows it."""

    id: int
    state: str
    attempts: int
    error: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class UndeliveredRow:
    """Numbers of messages of a receiver that wait, and that were given up."""

    receiver: str
    pending: int
    failed: int


@dataclass(frozen=True, slots=True)
class ReceiverStateRow:
    """A receiver. `failing_since` None: the last delivery succeeded. `failures`: since then.

    `unread_since` None: its acknowledgements can be read, or are not. `test_error`: why it did not
    take the test message of `tested_at`; None: it did.
    """

    receiver: str
    delivered_at: datetime | None
    failing_since: datetime | None
    failures: int
    error: str | None
    unread_since: datetime | None
    unread_error: str | None
    tested_at: datetime | None
    test_error: str | None

    @property
    def failed_test(self) -> str | None:
        """Why the last test message was not taken; None: it was, or a message was since."""
        if self.tested_at is None or (self.delivered_at and self.delivered_at > self.tested_at):
            return None
        return self.test_error


@dataclass(frozen=True, slots=True)
class LastMessageRow:
    """The last message about a group."""

    receiver: str
    group_key: str
    content: Mapping[str, Any]
    created_at: datetime


class NotificationGateway(Gateway):
    """Messages and receivers."""

    queries = "notifications"

    def insert(self, messages: Sequence[NewNotification]) -> list[int]:
        """Add messages with the alerts that they name; returns their numbers in order."""
        if not messages:
            return []
        rows = [
            {
                "receiver": message.receiver,
                "group_key": message.group_key,
                "cause": message.cause,
                "status": message.status,
                "content": message.content,
                "alert_count": len(message.alerts) + message.counted,
                "state": message.state,
            }
            for message in messages
        ]
        numbers = sorted(self._column("insert", rows=to_json_rows(rows)))
        alert_rows = []
        for number, message in zip(numbers, messages, strict=True):
            for alert_id, status in message.alerts:
                alert_rows.append({"notification": number, "alert_id": alert_id, "status": status})
        self._execute_rows("insert_alerts", alert_rows)
        return numbers

    def list_pending(self, *, after: int, limit: int) -> list[PendingNotificationRow]:
        """Messages that are not delivered yet, in order, after a number."""
        return self._records(PendingNotificationRow, "list_pending", after=after, limit=limit)

    def list_last(self, receivers: Collection[str], *, limit: int) -> list[LastMessageRow]:
        """The last messages about the groups of receivers, where they say that alerts fire."""
        return self._records(LastMessageRow, "list_last", receivers=list(receivers), limit=limit)

    def list_threads(self) -> dict[tuple[str, str], str]:
        """By which receivers know the first messages of groups, by receiver and group key."""
        rows = self._execute("list_threads").fetchall()
        return {(receiver, group_key): thread for receiver, group_key, thread in rows}

    def record(self, results: Sequence[NotificationResult]) -> None:
        """Store what became of messages, at most one result for each."""
        rows = [
            {
                "id": result.id,
                "state": result.state,
                "attempts": result.attempts,
                "error": result.error,
                "thread": result.thread,
            }
            for result in results
        ]
        self._execute_rows("record", rows)

    def list_folded(self, receiver: str, *, limit: int) -> list[FoldedNotificationRow]:
        """Messages of a receiver that wait to be counted in a summary."""
        return self._records(FoldedNotificationRow, "list_folded", receiver=receiver, limit=limit)

    def list_folded_receivers(self) -> list[str]:
        """Receivers with messages that wait to be counted in a summary."""
        return self._column("list_folded_receivers")

    def set_summary(self, numbers: Collection[int], summary: int) -> None:
        """Count messages in a summary."""
        self._execute("set_summary", ids=list(numbers), summary=summary)

    def list_recent_times(self, since: datetime) -> dict[str, list[datetime]]:
        """When messages that were not folded were added since a time, by receiver."""
        return self._pairs("count_recent", since=since)

    def list_newest(
        self,
        *,
        receiver: str | None = None,
        alert_id: UUID | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[NotificationRow]:
        """Messages, newest first. `alert_id`: only those that name it."""
        return self._records(
            NotificationRow,
            "list_newest",
            receiver=receiver,
            alert_id=alert_id,
            before=before,
            limit=limit,
        )

    def list_deliveries(self, alert_ids: Collection[UUID]) -> list[AlertDeliveryRow]:
        """Who was told of alerts, and when."""
        return self._records(AlertDeliveryRow, "list_deliveries", alert_ids=list(alert_ids))

    def list_group_keys(self, receiver: str) -> list[str]:
        """Groups about which a receiver was sent messages in the last 30 days."""
        return self._column("list_group_keys", receiver=receiver)

    def list_unacknowledged(
        self, receiver: str, group_key: str, *, before: datetime | None
    ) -> list[UUID]:
        """The alerts of the last message about a group that fire and nobody has acknowledged.

        `before`: the last one before this time; None: of all.
        """
        return self._column(
            "list_unacknowledged", receiver=receiver, group_key=group_key, before=before
        )

    def list_undelivered(self) -> list[UndeliveredRow]:
        """Receivers with messages that are not delivered."""
        return self._records(UndeliveredRow, "count_by_state")

    def delete_old(self, min_age: timedelta, *, limit: int) -> int:
        """Delete messages some time after their end; returns how many."""
        return self._execute("delete_old", min_age=min_age, limit=limit).rowcount

    def list_states(self) -> list[ReceiverStateRow]:
        """Receivers with their last delivery and failures."""
        return self._records(ReceiverStateRow, "list_states")

    def put_delivery(self, receiver: str) -> None:
        """Store that a receiver has taken a message."""
        self._execute("put_delivery", receiver=receiver)

    def put_failure(self, receiver: str, failures: int, error: str) -> None:
        """Store that a receiver has not taken messages."""
        self._execute("put_failure", receiver=receiver, failures=failures, error=replace_nul(error))

    def put_test(self, receiver: str, error: str | None) -> None:
        """Store what became of a test message. `error` None: the receiver has taken it."""
        stored_error = None if error is None else replace_nul(error)
        self._execute("put_test", receiver=receiver, error=stored_error)

    def put_unread(self, receiver: str, error: str) -> None:
        """Store that the acknowledgements of a receiver cannot be read."""
        self._execute("put_unread", receiver=receiver, error=replace_nul(error))

    def clear_unread(self, receivers: Collection[str]) -> None:
        """Store that the acknowledgements of receivers can be read, or are not."""
        self._execute("clear_unread", receivers=list(receivers))

    def delete_other_states(self, receivers: Collection[str]) -> None:
        """Forget receivers that are no longer declared."""
        self._execute("delete_other_states", receivers=list(receivers))
