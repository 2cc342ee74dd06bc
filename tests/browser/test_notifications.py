"""The pages Silences and Receivers, and what other pages show of notifications."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from sql.notifications import NewNotification, NotificationGateway, NotificationResult
from tests.api_data import WORKSPACE, alert_id, fill
from tests.browser.driver import Browser
from tests.integration.test_action_links import make_links
from tests.notified_alerts import Alerts
from tests.receivers import FakeReceiver, fake_receiver
from tests.served import Served, serve

pytestmark = pytest.mark.slow
_RECEIVERS = """
receivers:
  ops: {{webhook: "{url}"}}
  away: {{webhook: "http://127.0.0.1:9/"}}
routes: [{{receiver: ops, continue: true}}, {{receiver: away}}]
inhibit_rules:
- {{source_matchers: [alertname=Site], target_matchers: [alertname=Link]}}
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[FakeReceiver]:
    with fake_receiver() as opened:
        yield opened


@pytest.fixture(scope="module")
def served(receiver: FakeReceiver) -> Iterator[Served]:
    with serve(WORKSPACE + _RECEIVERS.format(url=receiver.url), "groups: []\n") as running:
        fill(running.connection)
        yield running


@pytest.fixture(scope="module")
def alerts(served: Served) -> dict[str, UUID]:
    """Alerts that fire: one is inhibited by another."""
    stored = Alerts(served.connection)
    return {
        "Site": stored.fire("Site", {"site": "rome"}, severity="page"),
        "Link": stored.fire("Link", {"port": "eth0"}, severity="ticket"),
        "Disk": stored.fire("Disk", {"host": "db1"}, severity="page"),
    }


def test_receivers_are_listed_and_tested(browser: Browser, receiver: FakeReceiver) -> None:
    browser.open("/receivers", "[aria-label=Receivers]")
    rows = "[aria-label=Receivers] tbody tr:nth-child({})"
    browser.press_button("Send a test message", rows.format(1))
    browser.wait_for_text("Receiver ops has taken a test message.")
    assert receiver.requests[-1].json["alerts"][0]["labels"]["alertname"] == "Test"
    browser.press_button("Send a test message", rows.format(2))
    browser.wait_for_text("Receiver away: cannot connect to 127.0.0.1:9")
    browser.wait_for_text("test failed", rows.format(2))
    browser.wait_for_text("ok", rows.format(1))
    assert browser.serious_findings() == []


def test_silence_is_previewed_added_and_expired(browser: Browser, alerts: dict[str, UUID]) -> None:
    browser.open(f"/silences?alert={alerts['Disk']}", "#comment")
    browser.wait_for_text("All labels of the alert")
    browser.wait_for_text('host="db1"', ".silence-form")
    browser.find("#comment").send_keys("disks are replaced")
    browser.press_button("Preview", ".silence-form")
    browser.wait_for_text("Holds back 1 alert now")
    browser.press_button("Add the silence", ".silence-form")
    browser.wait_for_text('host="db1"', "[aria-label=Silences]")
    browser.open("/")
    browser.wait_for_text("silenced by operator, ends", ".held-back")
    held_back = browser.text(".held-back")
    assert "disks are replaced" in held_back
    assert "inhibited by Site" in held_back
    assert "Site" in browser.text(".alert-list")
    assert "Disk" not in browser.text(".alert-list")
    browser.open("/", ".held-back a[href*=silence]")
    browser.find(".held-back a[href*=silence]").click()
    browser.wait_for_text("disks are replaced", "[aria-label=Silences]")
    browser.open("/silences", "[aria-label=Silences] button")
    assert browser.serious_findings() == []
    browser.press_button("Expire", "[aria-label=Silences]")
    browser.wait_for_text("No silence.")


def test_messages_and_who_was_told_are_shown(browser: Browser, served: Served) -> None:
    gateway = NotificationGateway(served.connection)
    messages = [
        NewNotification(
            receiver=receiver,
            group_key="{}",
            cause="first",
            status="firing",
            content={},
            alerts=[(alert_id(1), "firing")],
        )
        for receiver in ("ops", "away")
    ]
    first, second = gateway.insert(messages)
    gateway.record(
        [
            NotificationResult(first, "delivered", 1),
            NotificationResult(second, "pending", 3, "127.0.0.1 answered 500"),
        ]
    )
    browser.open(f"/alerts/{alert_id(1)}")
    browser.wait_for_text("delivered", "[aria-label=Messages]")
    assert "127.0.0.1 answered 500" in browser.text("[aria-label=Messages]")
    browser.open("/receivers/away")
    browser.wait_for_text("pending", "[aria-label=Messages]")
    assert "delivered" not in browser.text("[aria-label=Messages]")
    browser.open("/history")
    browser.wait_for_text("told: ops", ".alert-list")


def test_link_of_a_message_acts_once_when_its_button_is_pressed(
    browser: Browser, served: Served, alerts: dict[str, UUID]
) -> None:
    browser.problems()  # of other pages: the rules of stored alerts are not applied
    acknowledge, silence = make_links(served, alerts["Disk"])
    for link, label in ((acknowledge, "Acknowledge"), (silence, "Silence for 2 hours")):
        code = link.partition("#")[2]
        browser.driver.get("about:blank")
        browser.open(f"/act#{code}", "#act:not([hidden])")
        assert "#" not in browser.run("return window.location.href")
        assert 'host="db1"' in browser.text("#labels")
        assert browser.serious_findings() == []
        browser.press_button(label)
        browser.wait_for_text(f"Done: {label}.", "#message")
        browser.driver.get("about:blank")
        browser.open(f"/act#{code}", "#message:not(:empty)")
        browser.wait_for_text("This link was used before.", "#message")
        assert not browser.find("#act").is_displayed()
    assert browser.problems() == []
    browser.open(f"/alerts/{alerts['Disk']}")
    browser.wait_for_text("acknowledged by link in a message to ops")
