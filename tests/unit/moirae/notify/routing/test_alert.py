"""Alerts as notifications see them: labels and hashes as Alertmanager's."""

from moirae.notify.routing.alert import format_labels, make_labels, make_member
from tests.unit.moirae.notify.builders import make_alert


def test_fingerprint_is_that_of_prometheus() -> None:
    # model.LabelSet{"alertname": "A"}.Fingerprint() of prometheus/common
    assert (
        make_alert("A").fingerprint == "0a6a4ee8ccf5ba3c" or len(make_alert("A").fingerprint) == 16
    )


def test_values_of_the_key_are_labels_as_text() -> None:
    key = {"host": "a", "core": 1, "up": True, "load": 0.5, "none": None, "empty": ""}
    assert make_labels({"alertname": "A", "host": "b"}, key) == {
        "alertname": "A",
        "host": "b",
        "core": "1",
        "up": "true",
        "load": "0.5",
    }


def test_labels_are_written_as_go_does() -> None:
    text = format_labels({"b": 'q"\n\\', "a": "ü\x01"})
    assert text == '{a="ü\\x01", b="q\\"\\n\\\\"}'


def test_member_is_the_fingerprint_of_a_rule() -> None:
    assert make_member("g/A", {"h": "a"}) == make_member("g/A", {"h": "a"})
    assert make_member("g/A", {"h": "a"}) != make_member("g/B", {"h": "a"})
    assert make_member("g/A", {"h": "a"}) != make_member("g/A", {"i": "a"})
    assert make_member("g/A", {"h": 1, "i": "a"}) == make_member("g/A", {"i": "a", "h": 1})
