"""Links of messages: they act once, by POST, for one alert, and end."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from moirae.config import Receiver
from moirae.notify.delivery import Delivery
from moirae.notify.inbound.action_links import ActionLinks, hash_code
from sql.notifications import ActionLinkGateway
from tests.notified_alerts import Alerts, clear
from tests.served import Served, serve_here

pytestmark = pytest.mark.services
_WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
receivers: {ops: {webhook: "http://127.0.0.1:9/", actions: [acknowledge, silence]}}
routes: [{receiver: ops}]
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_here(_WORKSPACE, "groups: []\n") as running:
        yield running


@pytest.fixture
def alerts(served: Served) -> Alerts:
    clear(served.connection)
    return Alerts(served.connection)


@pytest.fixture
def alert(alerts: Alerts) -> UUID:
    return alerts.fire("Disk", {"host": "a"})


def make_links(served: Served, alert: UUID, cause: str = "first") -> list[str]:
    """The links of a message about an alert."""
    described = {"status": "firing", "moirae": {"id": str(alert)}}
    delivery = Delivery(
        id=1,
        receiver="ops",
        group_key="g",
        content={"externalURL": "http://m", "alerts": [described]},
        created_at=datetime.now(UTC),
        cause=cause,
    )
    target = {"webhook": "http://127.0.0.1:9/", "actions": ["acknowledge", "silence"]}
    receivers = {"ops": Receiver.model_validate(target)}
    (attached,) = ActionLinks(served.connection, receivers).attach([delivery])
    actions = attached.content["alerts"][0]["moirae"].get("actions", ())
    return [action["link"] for action in actions]


def call(served: Served, action: str, link: str) -> Any:
    code = link.partition("#")[2]
    return served.ask("POST", f"/api/v1/action-links/{action}", None, json={"code": code})


def count(served: Served, statement: bytes) -> int:
    row = served.connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def test_link_acts_once_by_post(served: Served, alert: UUID) -> None:
    link, _ = make_links(served, alert)
    assert link.startswith("http://m/act#")
    page = served.ask("GET", "/act", None)
    assert page.status_code == 200
    assert page.headers["Cache-Control"] == "no-store"
    shown = call(served, "read", link).json()
    assert (shown["state"], shown["label"], shown["name"]) == ("open", "Acknowledge", "Disk")
    assert count(served, b"SELECT count(*) FROM alert_notes") == 0
    assert call(served, "use", link).json()["state"] == "open"
    assert call(served, "use", link).json()["state"] == "used"
    assert call(served, "read", link).json()["state"] == "used"
    assert count(served, b"SELECT count(*) FROM alert_notes WHERE kind = 'ack'") == 1
    audited = b"SELECT count(*) FROM audit WHERE operation = 'action_links.use_link'"
    assert count(served, audited) >= 1


def test_silence_is_of_the_labels_of_the_alert(served: Served, alert: UUID) -> None:
    _, link = make_links(served, alert)
    assert call(served, "use", link).json()["state"] == "open"
    row = served.connection.execute(b"SELECT matchers, author FROM silences").fetchone()
    assert row == (['alertname="Disk"', 'host="a"'], "link in a message to ops")


def test_links_end_and_are_revoked(served: Served, alerts: Alerts, alert: UUID) -> None:
    expired, revoked = make_links(served, alert)
    served.connection.execute(
        b"UPDATE action_links SET expires_at = now() - interval '1 s' WHERE digest = %s",
        (hash_code(expired.partition("#")[2]),),
    )
    assert call(served, "use", expired).json()["state"] == "expired"
    body = {"alert": str(alert)}
    answer = served.ask("POST", "/api/v1/action-links/revoke", "operator", json=body)
    assert answer.json() == {"revoked": 1}
    assert call(served, "use", revoked).json()["state"] == "revoked"
    ended, _ = make_links(served, alert)
    alerts.resolve("Disk", {"host": "a"})
    assert call(served, "use", ended).json()["state"] == "ended"
    assert count(served, b"SELECT count(*) FROM silences") == 0


def test_other_codes_and_methods_do_nothing(served: Served, alert: UUID) -> None:
    assert call(served, "use", "http://m/act#guess").status_code == 404
    (link, _) = make_links(served, alert)
    code = link.partition("#")[2]
    assert served.ask("GET", f"/api/v1/action-links/use?code={code}", None).status_code >= 400
    assert ActionLinkGateway(served.connection).get(code.encode()) is None  # only its digest
    revoke = served.ask("POST", "/api/v1/action-links/revoke", "viewer", json={})
    assert revoke.status_code == 403


def test_summaries_and_tests_have_no_links(served: Served, alert: UUID) -> None:
    assert make_links(served, alert, "summary") == []
    assert make_links(served, alert, "test") == []
