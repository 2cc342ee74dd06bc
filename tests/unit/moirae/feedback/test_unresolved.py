"""Which unresolved alerts are asked for."""

from datetime import UTC, datetime

from moirae.feedback.unresolved import UnresolvedAlert, choose_alerts

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_alert(name: str, probability: float, recalled: int) -> UnresolvedAlert:
    return UnresolvedAlert(name, "g/r", START, {"host": "n1"}, "disk", probability, recalled)


def test_uncertain_and_often_recalled_alerts_come_first() -> None:
    alerts = [
        make_alert("certain", 0.99, 20),
        make_alert("rarely recalled", 0.4, 0),
        make_alert("best", 0.4, 5),
    ]
    assert [alert.alert for alert in choose_alerts(alerts, 2)] == ["best", "rarely recalled"]


def test_alert_of_several_events_is_listed_once() -> None:
    alerts = [make_alert("a", 0.9, 1), make_alert("a", 0.2, 1), make_alert("b", 0.5, 1)]
    assert [(alert.alert, alert.probability) for alert in choose_alerts(alerts, 10)] == [
        ("a", 0.2),
        ("b", 0.5),
    ]
