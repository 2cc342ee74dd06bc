"""Links of messages that act once: for one alert, one action, and a day at most.

The code of a link is in the message and in the memory of this process only; its digest is stored.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import sql
from archiver.clock import utc_now
from moirae.config import Receiver
from moirae.notify.delivery import Delivery
from sql.notifications import ActionLinkGateway, NewActionLink

PAGE = "/act"
"""The path of the page that a link opens; its code is in the fragment, which is not sent."""
LABELS = {"acknowledge": "Acknowledge", "silence": "Silence for 2 hours"}
LIFETIME = timedelta(days=1)
_CODE_BYTES = 32
_MAX_ALERTS = 10  # of a message: texts name as many
_GROUP_CAUSES = frozenset(("first", "change", "repeat", "update", "refined"))


def hash_code(code: str) -> bytes:
    """What is stored of a code."""
    return sha256(code.encode("utf-8", "replace")).digest()


class ActionLinks:
    """Adds links to the messages of receivers that have `actions`."""

    def __init__(self, connection: sql.Connection, receivers: Mapping[str, Receiver]) -> None:
        self._gateway = ActionLinkGateway(connection)
        self.declare(receivers)

    def declare(self, receivers: Mapping[str, Receiver]) -> None:
        """Add links to the messages of these receivers from now on."""
        self._actions = {name: receiver.actions for name, receiver in receivers.items()}

    def attach(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """The messages with their links, which are stored; part of a transaction."""
        links: list[NewActionLink] = []
        expires_at = utc_now() + LIFETIME
        attached = [self._attach(delivery, expires_at, links) for delivery in deliveries]
        self._gateway.insert(links)
        return attached

    def _attach(
        self, delivery: Delivery, expires_at: datetime, links: list[NewActionLink]
    ) -> Delivery:
        actions = self._actions.get(delivery.receiver, ())
        if not actions or delivery.cause not in _GROUP_CAUSES:
            return delivery
        page = f"{delivery.content['externalURL']}{PAGE}"
        alerts: list[Mapping[str, Any]] = []
        for number, alert in enumerate(delivery.content["alerts"]):
            if number < _MAX_ALERTS and alert["status"] == "firing":
                described = []
                for action in actions:
                    code = secrets.token_urlsafe(_CODE_BYTES)
                    alert_id = UUID(alert["moirae"]["id"])
                    links.append(
                        NewActionLink(
                            hash_code(code), alert_id, action, delivery.receiver, expires_at
                        )
                    )
                    described.append(
                        {"action": action, "label": LABELS[action], "link": f"{page}#{code}"}
                    )
                alert = {**alert, "moirae": {**alert["moirae"], "actions": described}}
            alerts.append(alert)
        return replace(delivery, content={**delivery.content, "alerts": alerts})
