"""Notifications: their state, the outbox, and silences."""

from sql.notifications.action_links import ActionLinkGateway, ActionLinkRow, NewActionLink
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
    "ActionLinkGateway",
    "ActionLinkRow",
    "AlertDeliveryRow",
    "AnswerOfEventRow",
    "FixRow",
    "HeldAlertRow",
    "LastMessageRow",
    "NewActionLink",
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
