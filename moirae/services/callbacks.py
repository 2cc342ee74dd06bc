"""Acknowledgements that Slack and PagerDuty report become those of alerts."""

from collections.abc import Mapping
from typing import Literal

from pydantic import SecretStr

from archiver.clock import utc_now
from moirae.config import Settings
from moirae.errors import NotFound
from moirae.notify import read_declared
from moirae.notify.inbound import Acknowledgement, read_pagerduty, read_slack

Sender = Literal["slack", "pagerduty"]


def read_acknowledgement(
    settings: Settings, sender: Sender, receiver: str, headers: Mapping[str, str], body: bytes
) -> Acknowledgement | None:
    """What a signed request acknowledges; None: nothing. Raises `MoiraeError`.

    `headers`: with names in lower case.
    """
    secret = _find_secret(read_declared(settings), sender, receiver)
    if secret is None:
        raise NotFound("no receiver with a signing_secret has this address")
    read = read_slack if sender == "slack" else read_pagerduty
    return read(secret.get_secret_value(), headers, body, utc_now())


def _find_secret(settings: Settings, sender: Sender, name: str) -> SecretStr | None:
    receiver = settings.receivers.get(name)
    if receiver is None:
        return None
    target = receiver.slack if sender == "slack" else receiver.pagerduty
    return None if target is None else target.signing_secret
