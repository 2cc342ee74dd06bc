"""Presses of buttons by Socket Mode, from a local server that speaks it."""

import threading
from collections.abc import Callable

import pytest

from moirae.config.receivers import SlackTarget
from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy
from moirae.notify.inbound.acknowledgements import Acknowledgement
from moirae.notify.inbound.slack import SlackSocket, check_address
from tests.slack_socket import LocalSlack, local_slack
from tests.unit.moirae.notify.inbound.test_acknowledgements import PRESS, TOKEN

ENVELOPE = {
    "envelope_id": "57d6a792-4d35-4d0b-b6aa-3361493e1caf",
    "type": "interactive",
    "accepts_response_payload": False,
    "payload": PRESS,
}


def make_socket(
    slack: LocalSlack, report: Callable[[Acknowledgement], threading.Event]
) -> SlackSocket:
    target = {"token": "xoxb-1", "channel": "#ops", "app_token": "xapp-1", "api": slack.api}
    return SlackSocket(SlackTarget.model_validate(target), HostPolicy(None), report)


def test_press_is_reported_and_confirmed_once_it_is_stored() -> None:
    reported: list[Acknowledgement] = []

    def report(acknowledgement: Acknowledgement) -> threading.Event:
        reported.append(acknowledgement)
        stored = threading.Event()
        stored.set()
        return stored

    successes: list[bool] = []
    with local_slack() as slack:
        for message in ("ping", {"type": "events_api", "envelope_id": "e1"}, ENVELOPE):
            slack.to_send.put(message)
        slack.to_send.put({"type": "disconnect", "reason": "refresh_requested"})
        make_socket(slack, report).listen(threading.Event(), lambda: successes.append(True))
        received = [slack.received.get(timeout=10) for _ in range(4)]
    assert received == [
        "/link/?ticket=t",
        "pong",
        {"envelope_id": "e1"},
        {"envelope_id": ENVELOPE["envelope_id"]},
    ]
    assert slack.tokens == ["Authorization: Bearer xapp-1"]
    assert reported == [Acknowledgement(TOKEN, "jtorrance (Slack)")]
    assert successes == [True]


def test_press_that_is_not_stored_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moirae.notify.inbound.slack._STORE_TIMEOUT", 0.01)
    with local_slack() as slack:
        slack.to_send.put(ENVELOPE)
        slack.to_send.put({"type": "disconnect", "reason": "warning"})
        make_socket(slack, lambda _: threading.Event()).listen(threading.Event(), lambda: None)
        assert slack.received.get(timeout=10) == "/link/?ticket=t"
        assert slack.received.empty()


@pytest.mark.parametrize("error", ["invalid_auth", "not_allowed_token_type"])
def test_refusal_of_slack_is_said(error: str) -> None:
    with local_slack() as slack:
        slack.answer = {"ok": False, "error": error}
        with pytest.raises(DeliveryFailed, match=error):
            make_socket(slack, lambda _: threading.Event()).listen(threading.Event(), lambda: None)


def test_closed_connection_is_a_failure() -> None:
    with local_slack() as slack:
        slack.to_send.put("close")
        with pytest.raises(DeliveryFailed, match="closed"):
            make_socket(slack, lambda _: threading.Event()).listen(threading.Event(), lambda: None)


@pytest.mark.parametrize(
    ("api", "address", "is_taken"),
    [
        ("https://slack.com/api", "wss://wss-primary.slack.com/link/?ticket=1", True),
        ("https://slack.com/api", "ws://wss-primary.slack.com/link/", False),
        ("https://slack.com/api", "wss://evil.example/slack.com", False),
        ("https://slack.com/api", "wss://evilslack.com/", False),
        ("http://127.0.0.1:8080", "ws://127.0.0.1:8081/", True),
        ("http://127.0.0.1:8080", "ws://10.0.0.1/", False),
        ("https://a.slack-gov.com/api", "wss://wss.slack-gov.com/", True),
    ],
)
def test_only_addresses_of_slack_are_opened(api: str, address: str, is_taken: bool) -> None:
    if is_taken:
        check_address(api, address)
    else:
        with pytest.raises(DeliveryFailed, match="Slack names"):
            check_address(api, address)
