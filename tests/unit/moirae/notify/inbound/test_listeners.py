"""Threads that report acknowledgements, as receivers are declared."""

from typing import Any

from moirae.config import Receiver
from moirae.notify.delivery import HostPolicy
from moirae.notify.inbound.listeners import Listeners, Reading, find_sources
from tests.receivers import fake_receiver
from tests.slack_socket import local_slack
from tests.unit.moirae.notify.inbound.test_slack import ENVELOPE
from tests.waiting import wait_until

HOSTS = HostPolicy(None)


def make_slack(channel: str, api: str = "https://slack.com/api", **more: Any) -> Receiver:
    target = {"token": "xoxb-1", "channel": channel, "api": api, "app_token": "xapp-1", **more}
    return Receiver.model_validate({"slack": target})


def test_receivers_of_an_app_share_a_connection() -> None:
    receivers = {
        "a": make_slack("#a"),
        "b": make_slack("#b"),
        "other": make_slack("#c", app_token="xapp-2"),
        "plain": make_slack("#d", app_token=None),
        "pager": Receiver.model_validate({"pagerduty": {"routing_key": "k", "api_token": "t"}}),
        "silent": Receiver.model_validate({"pagerduty": "k"}),
    }
    sources = find_sources(receivers, HOSTS)
    names = {name: source.receivers for name, source in sources.items()}
    assert names == {"a": ("a", "b"), "other": ("other",), "pager": ("pager",)}


def test_presses_are_taken_until_the_receiver_is_declared_no_longer() -> None:
    with local_slack() as slack:
        listeners = Listeners()
        receivers = {"ops": make_slack("#ops", slack.api)}
        listeners.declare(receivers, HOSTS)
        listeners.declare(receivers, HOSTS)  # goes on
        slack.to_send.put(ENVELOPE)
        reported: list[Any] = []
        wait_until(lambda: bool(reported.extend(listeners.take()) or reported), seconds=15)
        (entry,) = reported
        assert entry.receivers == ("ops",)
        entry.stored.set()
        assert slack.received.get(timeout=10) == "/link/?ticket=t"
        assert slack.received.get(timeout=10) == {"envelope_id": ENVELOPE["envelope_id"]}
        listeners.declare({}, HOSTS)
        assert len(slack.tokens) == 1


def test_failures_of_reading_are_reported_once_and_end() -> None:
    with fake_receiver() as pagerduty:
        pagerduty.answer = lambda _: (401, {}, b"{}")
        target = {"routing_key": "k", "api_token": "t", "api": pagerduty.url.rstrip("/")}
        receivers = {
            "pager": Receiver.model_validate({"pagerduty": {**target, "poll": "10ms"}}),
            "other": Receiver.model_validate({"webhook": "http://127.0.0.1:9/"}),
        }
        listeners = Listeners()
        listeners.declare(receivers, HOSTS)
        readings: list[Any] = []
        wait_until(lambda: len(readings.extend(listeners.take_readings()) or readings) == 2)
        assert readings[0] == Reading(("other",), None)
        assert readings[1].receivers == ("pager",)
        assert "401" in readings[1].error
        pagerduty.answer = lambda _: (200, {}, b'{"incidents": []}')
        wait_until(lambda: len(readings.extend(listeners.take_readings()) or readings) == 3)
        assert readings[2] == Reading(("pager",), None)
        listeners.close()
