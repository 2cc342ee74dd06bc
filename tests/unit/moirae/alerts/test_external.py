"""Which posts are about one alert, and when it ends."""

import pytest

from moirae.alerts.external import (
    AlertPost,
    PostedAlert,
    continue_alert,
    make_external_event,
)

_LABELS = {"instance": "a", "alertname": "Up"}


def _post(at: int, starts: int, ends: int, summary: str = "") -> AlertPost:
    return AlertPost(at, _LABELS, starts, ends, {"summary": summary})


def _fold(*posts: AlertPost) -> list[PostedAlert]:
    """The alerts of posts in the order in which they were received."""
    alerts: list[PostedAlert] = []
    for post in posts:
        alert, is_new = continue_alert(alerts[-1] if alerts else None, post)
        if is_new:
            alerts.append(alert)
        else:
            alerts[-1] = alert
    return alerts


def test_later_post_moves_the_end_and_the_annotations() -> None:
    (alert,) = _fold(_post(10, 5, 250, "one"), _post(70, 5, 310, "two"))
    assert (alert.starts, alert.fires_until, alert.annotations) == (5, 310, {"summary": "two"})


def test_overtaken_post_changes_nothing() -> None:
    (alert,) = _fold(_post(70, 5, 65, "resolved"), _post(10, 5, 250, "fires"))
    assert (alert.fires_until, alert.annotations) == (65, {"summary": "resolved"})


def test_other_start_while_it_fires_is_the_same_alert() -> None:
    (alert,) = _fold(_post(10, 5, 250), _post(12, 7, 252))
    assert (alert.starts, alert.fires_until) == (5, 252)


def test_alert_of_two_servers_ends_when_both_say_so() -> None:
    fires = [_post(10, 5, 250), _post(12, 7, 252)]
    (one_ended,) = _fold(*fires, _post(60, 5, 58))
    assert one_ended.fires_until == 252
    (both_ended,) = _fold(*fires, _post(60, 5, 58), _post(61, 7, 59))
    assert both_ended.fires_until == 59


def test_start_after_the_end_is_another_alert() -> None:
    first, second = _fold(_post(10, 5, 250), _post(60, 5, 58), _post(100, 95, 340))
    assert (first.fires_until, second.starts) == (58, 95)


def test_repeated_end_of_an_earlier_alert_is_ignored() -> None:
    posts = [_post(10, 5, 250), _post(60, 5, 58), _post(100, 95, 340)]
    assert _fold(*posts, _post(101, 5, 58)) == _fold(*posts)


def test_alert_that_ended_by_silence_fires_again_with_its_start() -> None:
    (alert,) = _fold(_post(10, 5, 250), _post(900, 5, 1140))
    assert (alert.starts, alert.fires_until) == (5, 1140)


def test_number_of_starts_is_limited() -> None:
    (alert,) = _fold(*(_post(at, at, at + 1_000) for at in range(100)))
    assert len(alert.ends) == 16
    assert alert.fires_until == 1_099


@pytest.mark.parametrize("columns", [(), ("labels", "instance", "job")])
def test_event_has_its_labels_whatever_their_order(columns: tuple[str, ...]) -> None:
    post = _post(10, 5, 250)
    other_order = AlertPost(10, dict(reversed(_LABELS.items())), 5, 250, {})
    event = make_external_event("external/Up", columns, post)
    assert event == make_external_event("external/Up", columns, other_order)
    assert event.key == _LABELS
    assert event.attributes["labels"] == '{"alertname":"Up","instance":"a"}'
    assert event.attributes["instance"] == "a"
    assert event.attributes.get("job") is None


def test_names_of_labels_are_part_of_the_identity() -> None:
    renamed = AlertPost(10, {"host": "a", "alertname": "Up"}, 5, 250, {})
    events = [make_external_event("external/Up", (), post) for post in (_post(10, 5, 9), renamed)]
    assert events[0].eid != events[1].eid
    assert events[0].fingerprint != events[1].fingerprint
