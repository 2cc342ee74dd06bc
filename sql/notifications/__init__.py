"""Notifications: their state, the outbox, and silences."""

from sql.notifications.outbox import (
    AlertDeliveryRow,
    LastMessageRow,
    NewNotification,
    NotificationGateway,
    NotificationResult,
    NotificationRow,
    PendingNotificationRow,
    ReceiverStateRow,
    UndeliveredRow,
)
from sql.notifications.silences import NewSilence, SilenceGateway, SilenceRow
from sql.notifications.state import (
    AnswerOfEventRow,
    FixRow,
    HeldAlertRow,
    NotifiedAlertRow,
    NotifiedRuleRow,
    NotifyGroupRow,
    NotifyLogRow,
    NotifyStateGateway,
)

__all__ = [
    "AlertDeliveryRow",
    "AnswerOfEventRow",
    "FixRow",
    "HeldAlertRow",
    "LastMessageRow",
    "NewNotification",
    "NewSilence",
    "NotificationGateway",
    "NotificationResult",
    "NotificationRow",
    "NotifiedAlertRow",
    "NotifiedRuleRow",
    "NotifyGroupRow",
    "NotifyLogRow",
    "NotifyStateGateway",
    "PendingNotificationRow",
    "ReceiverStateRow",
    "SilenceGateway",
    "SilenceRow",
    "UndeliveredRow",
]
