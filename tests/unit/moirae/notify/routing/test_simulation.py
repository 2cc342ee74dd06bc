"""Messages by event time alone."""

from moirae.notify.routing.simulation import simulate
from tests.unit.moirae.notify.builders import at, describe, make_alert, make_grouping

ROUTE = {"receiver": "ops", "group_by": ["host"], "group_wait": "0s", "group_interval": "5s"}


def test_each_message_has_its_time_and_the_alerts_that_change_then() -> None:
    alerts = [make_alert("A", 1, ended=9, host="a"), make_alert("B", 1, host="a")]
    alerts.append(make_alert("C", 60, host="b"))
    messages = simulate(make_grouping(ROUTE), alerts, at(60))
    assert [(message.planned_at, describe(message)) for message in messages] == [
        (at(1), ["A firing", "B firing"]),
        (at(11), ["A resolved", "B firing"]),
        (at(60), ["C firing"]),
    ]


def test_what_happens_after_the_end_is_not_told() -> None:
    alerts = [make_alert("A", 1, ended=9, host="a"), make_alert("B", 20, host="b")]
    messages = list(simulate(make_grouping(ROUTE), alerts, at(10)))
    assert [message.planned_at for message in messages] == [at(1)]
