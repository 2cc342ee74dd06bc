"""Messages: what one receiver is told about one group of alerts. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from moirae.notify.routing.alert import NotifiedAlert

Cause = Literal[
    "first", "change", "repeat", "update", "refined", "unsent", "summary", "test", "heartbeat"
]


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message about a group. `cause`: why it is sent.

    `alerts`: in the order of Alertmanager.
    """

    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    alerts: Sequence[NotifiedAlert]
    cause: Cause
    planned_at: datetime

    @property
    def is_firing(self) -> bool:
        """Whether one of its alerts fires."""
        return any(not alert.is_resolved for alert in self.alerts)

    @property
    def status(self) -> str:
        return "firing" if self.is_firing else "resolved"
