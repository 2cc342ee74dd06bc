"""How long input waits to be archived."""

from datetime import datetime

import sql
from moirae.inspect.report import UnreadInputStatus
from sql.archive import UnreadInputGateway


def list_unread_input(connection: sql.Connection, now: datetime) -> list[UnreadInputStatus]:
    """The streams with unread input as the live process last saw it, the longest wait first."""
    return [
        UnreadInputStatus(
            stream=row.stream,
            oldest_at=row.oldest_at,
            waiting_seconds=max(0.0, (now - row.oldest_at).total_seconds()),
            checked_at=row.checked_at,
        )
        for row in UnreadInputGateway(connection).list_all()
    ]
