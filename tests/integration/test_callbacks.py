"""Slack and PagerDuty call the server: alerts of a group become acknowledged."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from moirae.notify.inbound import Acknowledgement, acknowledge_group
from moirae.notify.inbound.acknowledgements import make_group_token
from sql.notifications import NewNotification, NotificationGateway
from tests.notified_alerts import Alerts, clear
from tests.served import Served, serve_here
from tests.unit.moirae.notify.inbound.test_acknowledgements import (
    EVENT,
    PRESS,
    SECRET,
    sign_pagerduty,
    sign_slack,
)

pytestmark = pytest.mark.services
_GROUP = '{}/{}:{alertname="Disk"}'  # that of the recorded requests
_WORKSPACE = f"""
home: .moirae
server: {{listen: "127.0.0.1:0"}}
receivers:
  chat: {{slack: {{webhook: "http://127.0.0.1:9/", signing_secret: {SECRET}}}}}
  pager: {{pagerduty: {{routing_key: k, signing_secret: {SECRET}}}}}
  plain: {{slack: {{webhook: "http://127.0.0.1:9/"}}}}
routes: [{{receiver: chat, continue: true}}, {{receiver: pager}}]
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_here(_WORKSPACE, "groups: []\n") as running:
        yield running


@pytest.fixture
def alerts(served: Served) -> list[UUID]:
    """Two alerts of a group, of which both receivers were told; the second one has ended."""
    clear(served.connection)
    stored = Alerts(served.connection)
    numbers = [stored.fire("Disk", {"host": host}) for host in "ab"]
    NotificationGateway(served.connection).insert(
        [
            NewNotification(
                receiver=receiver,
                group_key=_GROUP,
                cause="first",
                status="firing",
                content={},
                alerts=[(number, "firing") for number in numbers],
            )
            for receiver in ("chat", "pager")
        ]
    )
    stored.resolve("Disk", {"host": "b"})
    return numbers


def _call(served: Served, path: str, request: tuple[dict[str, str], bytes]) -> Any:
    headers, body = request
    return served.ask("POST", f"/api/v1/callbacks/{path}", None, headers=headers, content=body)


def _list_authors(served: Served) -> list[Any]:
    return served.connection.execute(
        b"SELECT alert_id, author FROM alert_notes WHERE kind = 'ack'"
    ).fetchall()


def test_button_in_slack_acknowledges_once(served: Served, alerts: list[UUID]) -> None:
    request = sign_slack(PRESS, datetime.now(UTC))
    assert _call(served, "slack/chat", request).json() == {"acknowledged": 1}
    assert _call(served, "slack/chat", request).json() == {"acknowledged": 0}
    assert _list_authors(served) == [(alerts[0], "jtorrance (Slack)")]


def test_incident_in_pagerduty_acknowledges(served: Served, alerts: list[UUID]) -> None:
    event = {"event": {**EVENT["event"], "occurred_at": datetime.now(UTC).isoformat()}}
    assert _call(served, "pagerduty/pager", sign_pagerduty(event)).json() == {"acknowledged": 1}
    assert _list_authors(served) == [(alerts[0], "Tenex Engineer (PagerDuty)")]


@pytest.mark.usefixtures("alerts")
def test_unsigned_requests_and_receivers_without_a_secret_change_nothing(served: Served) -> None:
    request = sign_slack(PRESS, datetime.now(UTC))
    wrong = sign_slack(PRESS, datetime.now(UTC), "other")
    assert _call(served, "slack/chat", wrong).status_code == 401
    assert _call(served, "slack/plain", request).status_code == 404
    assert _call(served, "slack/none", request).status_code == 404
    assert _call(served, "pagerduty/chat", request).status_code == 404
    large = (request[0], b"x" * (300 << 10))
    assert _call(served, "slack/chat", large).status_code == 413
    assert _list_authors(served) == []


def test_acknowledgement_is_of_the_alerts_that_were_told_before_it(
    served: Served, alerts: list[UUID]
) -> None:
    token = make_group_token(_GROUP)
    early = Acknowledgement(token, "jo (PagerDuty)", datetime(2020, 1, 1, tzinfo=UTC))
    assert acknowledge_group(served.connection, "pager", early) == 0
    late = Acknowledgement(token, "jo (PagerDuty)", datetime.now(UTC))
    assert acknowledge_group(served.connection, "pager", late) == 1
    assert _list_authors(served) == [(alerts[0], "jo (PagerDuty)")]
