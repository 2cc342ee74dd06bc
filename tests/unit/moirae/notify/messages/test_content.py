"""The content of messages: Alertmanager's fields, ours under one key."""

from datetime import UTC, datetime, timedelta, timezone

from moirae.notify.channels import render_webhook
from moirae.notify.messages.content import (
    find_common,
    format_time,
    make_content,
    make_summary_content,
)
from moirae.notify.routing.message import Message
from tests.unit.moirae.notify.builders import START, make_alert

ALERT_FIELDS = "status labels annotations startsAt endsAt generatorURL fingerprint".split()
# What Alertmanager 0.25 sends.
MESSAGE_FIELDS = """receiver status alerts groupLabels commonLabels commonAnnotations externalURL
    version groupKey truncatedAlerts""".split()


def make_message() -> Message:
    return Message(
        receiver="ops",
        group_key="{}:{}",
        group_labels={},
        alerts=[make_alert("A", host="a", x="1"), make_alert("A", 0, ended=5, host="b", x="1")],
        cause="first",
        planned_at=START,
    )


def test_webhook_message_has_the_fields_of_alertmanager_and_one_more_for_each_alert() -> None:
    message = render_webhook(make_content(make_message(), "http://m", {}))
    assert list(message) == MESSAGE_FIELDS
    assert list(message["alerts"][0]) == [*ALERT_FIELDS, "moirae"]
    assert message["commonLabels"] == {"alertname": "A", "x": "1"}
    assert message["status"] == "firing"
    assert message["alerts"][1]["endsAt"] == "2026-11-27T12:00:05Z"


def test_alerts_beyond_the_maximum_are_counted() -> None:
    message = render_webhook(make_content(make_message(), "http://m", {}), 1)
    assert (len(message["alerts"]), message["truncatedAlerts"]) == (1, 1)


def test_times_are_written_as_go_does() -> None:
    assert format_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05Z"
    time = datetime(2026, 1, 2, 3, 4, 5, 120_000, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(time) == "2026-01-02T02:04:05.12Z"
    assert format_time(None) == "0001-01-01T00:00:00Z"


def test_only_equal_entries_are_common() -> None:
    assert find_common([]) == {}
    assert find_common([{"a": "1", "b": "2"}, {"a": "1", "b": "3"}]) == {"a": "1"}


def test_summary_says_how_many_and_of_which_rules() -> None:
    summary = {
        "messages": 300,
        "firing": 400,
        "resolved": 12,
        "rules": {"g/A": 412},
        "more_rules": 2,
        "worst": [],
    }
    content = make_summary_content("ops", summary, "http://m", START, "Storm:")
    (alert,) = content["alerts"]
    assert alert["annotations"] == {
        "summary": "412 more like this: 400 firing, 12 resolved",
        "description": "Storm: g/A: 412 and 2 more rules",
    }
