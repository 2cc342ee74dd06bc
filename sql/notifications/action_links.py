"""Links of messages that act once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class NewActionLink:
    """A link. `digest`: SHA-256 of its code, which is not stored."""

    digest: bytes
    alert_id: UUID
    action: str
    receiver: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ActionLinkRow:
    """A link with its alert."""

    alert_id: UUID
    action: str
    receiver: str
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None
    labels: Mapping[str, str]
    key: Mapping[str, Any]
    annotations: Mapping[str, str]
    starts_at: datetime
    ends_at: datetime | None


class ActionLinkGateway(Gateway):
    """All links."""

    queries = "action_links"

    def insert(self, links: Sequence[NewActionLink]) -> None:
        """Add links."""
        rows = [
            {
                "digest": link.digest.hex(),
                "alert_id": link.alert_id,
                "action": link.action,
                "receiver": link.receiver,
                "expires_at": link.expires_at,
            }
            for link in links
        ]
        self._execute_rows("insert", rows)

    def get(self, digest: bytes) -> ActionLinkRow | None:
        """The link of a code; None: there is none."""
        return self._record(ActionLinkRow, "get", digest=digest)

    def use(self, digest: bytes) -> bool:
        """Use a link. False: it was used or revoked, has ended, or is unknown."""
        return self._execute("use", digest=digest).rowcount == 1

    def revoke(self, *, receiver: str | None, alert_id: UUID | None) -> int:
        """Have open links act no more; returns their number."""
        return self._execute("revoke", receiver=receiver, alert_id=alert_id).rowcount

    def delete_old(self, min_age: timedelta, *, limit: int) -> int:
        """Delete links some time after their end; returns how many."""
        return self._execute("delete_old", min_age=min_age, limit=limit).rowcount
