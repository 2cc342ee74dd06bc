"""PagerDuty's Events API v2."""

import orjson

from moirae.notify.channels.pagerduty import render_pagerduty
from tests.unit.moirae.notify.channels.contents import make_message_content, make_receiver

RECEIVER = make_receiver(pagerduty="key")


def test_event_has_the_fields_of_the_api() -> None:
    event = render_pagerduty(RECEIVER, make_message_content())
    assert (event["routing_key"], event["event_action"]) == ("key", "trigger")
    assert len(event["dedup_key"]) <= 255
    payload = event["payload"]
    assert payload["summary"] == "[FIRING:1] Disk a"
    assert payload["severity"] == "critical"
    assert payload["source"]
    assert "fixed by: restart" in payload["custom_details"]["text"]


def test_end_of_a_group_resolves_the_same_incident() -> None:
    content = make_message_content()
    ended = {**content, "status": "resolved"}
    first, last = render_pagerduty(RECEIVER, content), render_pagerduty(RECEIVER, ended)
    assert last["event_action"] == "resolve"
    assert first["dedup_key"] == last["dedup_key"]


def test_large_event_is_cut() -> None:
    labels = {f"l{number}": "x" * 900 for number in range(900)}
    event = render_pagerduty(RECEIVER, make_message_content(**labels))
    assert len(orjson.dumps(event)) < 512 << 10
