"""Writes messages into the outbox: their content, and summaries of those beyond the limit."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sql
from archiver.clock import utc_now
from moirae.notify.delivery import Delivery
from moirae.notify.inbound import ActionLinks
from moirae.notify.messages.content import (
    list_alert_ids,
    make_content,
    make_summary_content,
)
from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.folding import Budget, summarize
from moirae.notify.routing.message import Message
from sql.notifications import (
    LastMessageRow,
    NewNotification,
    NotificationGateway,
    PendingNotificationRow,
)

_WINDOW = timedelta(minutes=1)
_MAX_FOLDED = 20_000  # messages of one summary
_STORM = "More messages than limits.notifications were due."
_UNSENT = "Alerts fired and ended before they could be sent."

FindHistory = Callable[[Sequence[NotifiedAlert]], Mapping[str, Mapping[str, Any]]]
"""What is known of alerts, by ID."""


class MessageOutbox:
    """Messages of a workspace. The caller owns the transaction."""

    def __init__(
        self,
        connection: sql.Connection,
        limit: int,
        find_history: FindHistory,
        links: ActionLinks,
        restored_at: datetime | None = None,
    ) -> None:
        """`restored_at`: of the workspace from a backup; None: it never was."""
        self._links = links
        self._restored_at = restored_at
        self._gateway = NotificationGateway(connection)
        since = utc_now() - _WINDOW
        self._budget = Budget(limit, self._gateway.list_recent_times(since))
        self._folded = set(self._gateway.list_folded_receivers())
        self._find_history = find_history

    def set_limit(self, limit: int) -> None:
        """Messages a minute and receiver beyond which they are folded."""
        self._budget.limit = limit

    def add(self, messages: Sequence[Message], public_url: str) -> list[Delivery]:
        """Store messages; returns those to deliver."""
        alerts = {alert.id: alert for message in messages for alert in message.alerts}
        history = self._find_history(list(alerts.values()))
        added = []
        for message in messages:
            is_admitted = self._budget.admits(message)
            if not is_admitted:
                self._folded.add(message.receiver)
            content = make_content(message, public_url, history)
            added.append(_make_notification(message, content, is_admitted))
        return self._insert(added)

    def add_summaries(self, receivers: Sequence[str], public_url: str) -> list[Delivery]:
        """Count folded messages of receivers whose limit permits it; returns what to deliver."""
        now = utc_now()
        deliveries: list[Delivery] = []
        for receiver in sorted(self._folded):
            if receiver not in receivers or not self._budget.admits_summary(receiver, now):
                continue
            self._folded.discard(receiver)
            folded = self._gateway.list_folded(receiver, limit=_MAX_FOLDED)
            if not folded:
                continue
            summary = summarize(row.content for row in folded)
            causes = {row.cause for row in folded}
            reasons = [_UNSENT] if "unsent" in causes else []
            if causes - {"unsent"}:
                reasons.append(_STORM)
            content = make_summary_content(receiver, summary, public_url, now, " ".join(reasons))
            count = summary["firing"] + summary["resolved"]
            (delivery,) = self._insert([_make_summary(receiver, content, count)])
            assert delivery.id is not None
            self._gateway.set_summary([row.id for row in folded], delivery.id)
            deliveries.append(delivery)
        return deliveries

    def add_unsent(
        self, alerts_by_receiver: Mapping[str, Sequence[NotifiedAlert]], public_url: str
    ) -> None:
        """Have alerts that ended before they could be sent counted in the next summaries."""
        added = []
        for receiver, alerts in alerts_by_receiver.items():
            group_key = f"moirae/unsent/{receiver}"
            message = Message(
                receiver=receiver,
                group_key=group_key,
                group_labels={},
                alerts=alerts,
                cause="unsent",
                planned_at=utc_now(),
            )
            self._folded.add(receiver)
            added.append(_make_notification(message, make_content(message, public_url, {}), False))
        self._insert(added)

    def add_refined(
        self, contents: Sequence[tuple[LastMessageRow, Mapping[str, Any]]]
    ) -> list[Delivery]:
        """Store messages whose history was refined, within the limits of their receivers."""
        now = utc_now()
        admitted = [
            NewNotification(
                receiver=row.receiver,
                group_key=row.group_key,
                cause=content["cause"],
                status=content["status"],
                content=content,
                alerts=[(UUID(alert["moirae"]["id"]), "firing") for alert in content["alerts"]],
            )
            for row, content in contents
            if self._budget.admits_other(row.receiver, now)
        ]
        return self._insert(admitted)

    def list_pending(self, after: int, limit: int) -> list[Delivery]:
        """Messages that an earlier process has not delivered, in order, after a number."""
        deliveries = [
            Delivery(
                id=row.id,
                receiver=row.receiver,
                group_key=row.group_key,
                content=self._mark_restored(row),
                created_at=row.created_at,
                attempts=row.attempts,
                cause=row.cause,
            )
            for row in self._gateway.list_pending(after=after, limit=limit)
        ]
        # The codes of their links were in the memory of that process only.
        return self._links.attach(deliveries)

    def _mark_restored(self, row: PendingNotificationRow) -> Mapping[str, Any]:
        """The content of a message that may have been delivered after the backup was made."""
        if self._restored_at is None or row.created_at >= self._restored_at:
            return row.content
        alerts = [
            {**alert, "moirae": {**alert["moirae"], "restored": True}}
            for alert in row.content["alerts"]
        ]
        return {**row.content, "alerts": alerts}

    @property
    def has_folded(self) -> bool:
        """Whether messages wait to be counted in a summary."""
        return bool(self._folded)

    def _insert(self, messages: Sequence[NewNotification]) -> list[Delivery]:
        now = utc_now()
        numbers = self._gateway.insert(messages)
        deliveries = [
            Delivery(
                id=number,
                receiver=message.receiver,
                group_key=message.group_key,
                content=message.content,
                created_at=now,
                cause=message.cause,
            )
            for number, message in zip(numbers, messages, strict=True)
            if message.state == "pending"
        ]
        return self._links.attach(deliveries)


def _make_notification(
    message: Message, content: Mapping[str, Any], is_admitted: bool
) -> NewNotification:
    return NewNotification(
        receiver=message.receiver,
        group_key=message.group_key,
        cause=message.cause,
        status=message.status,
        content=content,
        alerts=list_alert_ids(message),
        state="pending" if is_admitted else "folded",
    )


def _make_summary(receiver: str, content: Mapping[str, Any], count: int) -> NewNotification:
    return NewNotification(
        receiver=receiver,
        group_key=content["groupKey"],
        cause="summary",
        status=content["status"],
        content=content,
        alerts=[],
        counted=count,
    )
