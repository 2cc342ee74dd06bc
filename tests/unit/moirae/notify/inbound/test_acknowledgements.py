"""Signed requests of Slack and PagerDuty, with right, wrong and old signatures."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from moirae.errors import RequestRejected
from moirae.notify.inbound.acknowledgements import (
    Acknowledgement,
    make_group_token,
    read_pagerduty,
    read_slack,
)

# The example of Slack's documentation on how to verify requests.
PUBLISHED_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
PUBLISHED_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
    b"96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
PUBLISHED_HEADERS = {
    "x-slack-request-timestamp": "1531420618",
    "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
}
NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
SECRET = "s3cret"
TOKEN = make_group_token('{}/{}:{alertname="Disk"}')
# As Slack sends the press of a button; IDs are changed.
PRESS: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "UA8RXUSPL", "username": "jtorrance", "team_id": "T9TK3CUKW"},
    "api_app_id": "AABA1ABCD",
    "container": {"type": "message", "message_ts": "1548261231.000200", "channel_id": "CBR2V3XEX"},
    "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
    "actions": [
        {
            "type": "button",
            "action_id": "acknowledge",
            "block_id": "=qXel",
            "value": TOKEN,
            "action_ts": "1548426417.840180",
        }
    ],
}
# As PagerDuty sends an acknowledged incident; IDs are changed.
EVENT: dict[str, Any] = {
    "event": {
        "id": "5ac64822-4adc-4fda-ade0-410becf0de4f",
        "event_type": "incident.acknowledged",
        "resource_type": "incident",
        "occurred_at": "2026-11-27T11:59:30.123Z",
        "agent": {"id": "PLH1HKV", "summary": "Tenex Engineer", "type": "user_reference"},
        "client": None,
        "data": {
            "id": "PGR0VU2",
            "type": "incident",
            "incident_key": TOKEN,
            "status": "acknowledged",
        },
    }
}


def sign_slack(
    payload: Any, sent_at: datetime, secret: str = SECRET
) -> tuple[dict[str, str], bytes]:
    body = urlencode({"payload": json.dumps(payload)}).encode()
    stamp = str(int(sent_at.timestamp()))
    signed = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256)
    headers = {
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": f"v0={signed.hexdigest()}",
    }
    return headers, body


def sign_pagerduty(event: Any, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    body = json.dumps(event).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    # While a secret is changed there are several signatures.
    return {"x-pagerduty-signature": f"v1={'0' * 64},v1={signature}"}, body


def test_published_signature_of_slack_is_accepted() -> None:
    now = datetime.fromtimestamp(1531420618, UTC)
    with pytest.raises(RequestRejected, match="not JSON"):  # a command, not the press of a button
        read_slack(PUBLISHED_SECRET, PUBLISHED_HEADERS, PUBLISHED_BODY, now)


def test_press_of_a_button_acknowledges_its_group() -> None:
    headers, body = sign_slack(PRESS, NOW)
    assert read_slack(SECRET, headers, body, NOW) == Acknowledgement(TOKEN, "jtorrance (Slack)")
    other = {**PRESS, "actions": [{"action_id": "open"}]}
    assert read_slack(SECRET, *sign_slack(other, NOW), NOW) is None


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        sign_slack(PRESS, NOW, "other"),
        sign_slack(PRESS, NOW - timedelta(minutes=6)),
        sign_slack(PRESS, NOW + timedelta(minutes=6)),
        ({}, sign_slack(PRESS, NOW)[1]),
        (sign_slack(PRESS, NOW)[0], sign_slack(PRESS, NOW)[1] + b"&x=1"),
        (
            {**sign_slack(PRESS, NOW)[0], "x-slack-request-timestamp": "x"},
            sign_slack(PRESS, NOW)[1],
        ),
    ],
)
def test_wrong_missing_and_old_signatures_of_slack_are_refused(
    headers: dict[str, str], body: bytes
) -> None:
    with pytest.raises(RequestRejected) as refusal:
        read_slack(SECRET, headers, body, NOW)
    assert refusal.value.status == 401


def test_acknowledged_incident_acknowledges_its_group() -> None:
    headers, body = sign_pagerduty(EVENT)
    expected = Acknowledgement(TOKEN, "Tenex Engineer (PagerDuty)")
    assert read_pagerduty(SECRET, headers, body, NOW) == expected
    other = {"event": {**EVENT["event"], "event_type": "incident.resolved"}}
    assert read_pagerduty(SECRET, *sign_pagerduty(other), NOW) is None


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        (*sign_pagerduty(EVENT, "other"), NOW),
        ({}, sign_pagerduty(EVENT)[1], NOW),
        (sign_pagerduty(EVENT)[0], sign_pagerduty(EVENT)[1] + b" ", NOW),
        (*sign_pagerduty(EVENT), NOW + timedelta(days=2)),
    ],
)
def test_wrong_missing_and_old_signatures_of_pagerduty_are_refused(
    headers: dict[str, str], body: bytes, now: datetime
) -> None:
    with pytest.raises(RequestRejected) as refusal:
        read_pagerduty(SECRET, headers, body, now)
    assert refusal.value.status == 401


@pytest.mark.parametrize("event", [{}, {"event": 5}, {"event": {"occurred_at": "x"}}, [1]])
def test_signed_nonsense_is_refused(event: Any) -> None:
    with pytest.raises(RequestRejected) as refusal:
        read_pagerduty(SECRET, *sign_pagerduty(event), NOW)
    assert refusal.value.status == 400
