"""Receivers that do not take messages, and why the workspace file is not in force."""

from collections.abc import Iterator, Mapping
from typing import Any

import sql
from moirae.inspect.report import NotificationStatus
from sql.notifications import NotificationGateway, NotifyStateGateway

_MAX_ERROR = 300  # characters


def collect_notification_status(connection: sql.Connection) -> NotificationStatus:
    """Messages that wait or were given up, receivers that fail."""
    gateway = NotificationGateway(connection)
    states = gateway.list_states()
    undelivered = {row.receiver: row for row in gateway.list_undelivered()}
    failing = [
        {
            "receiver": state.receiver,
            "since": state.failing_since,
            "failures": state.failures,
            "error": (state.error or "")[:_MAX_ERROR],
            "waiting": undelivered[state.receiver].pending if state.receiver in undelivered else 0,
        }
        for state in states
        if state.failing_since is not None
    ]
    unread = [
        {
            "receiver": state.receiver,
            "since": state.unread_since,
            "error": (state.unread_error or "")[:_MAX_ERROR],
        }
        for state in states
        if state.unread_since is not None
    ]
    return NotificationStatus(
        waiting=sum(row.pending for row in undelivered.values()),
        given_up=sum(row.failed for row in undelivered.values()),
        failing=failing,
        unread=unread,
        problems=NotifyStateGateway(connection).get_problems(),
    )


def find_notification_problems(status: Mapping[str, Any]) -> Iterator[str]:
    """A line for each receiver that fails, and for a workspace file that is not in force."""
    notifications = status["notifications"]
    for receiver in notifications["failing"]:
        yield (
            f"receiver {receiver['receiver']}: {receiver['waiting']} messages wait since "
            f"{receiver['since']:%Y-%m-%d %H:%M:%S}Z: {receiver['error']}; test it by "
            f"`moirae receivers test {receiver['receiver']}`"
        )
    for receiver in notifications["unread"]:
        yield (
            f"receiver {receiver['receiver']}: acknowledgements cannot be read since "
            f"{receiver['since']:%Y-%m-%d %H:%M:%S}Z: {receiver['error']}; check its token"
        )
    for problem in notifications["problems"][:1]:
        yield f"workspace file rejected, the previous receivers and routes stay in use: {problem}"
