"""Groups: when which alerts are sent, as Alertmanager does and with our own keys."""

from dataclasses import replace
from uuid import UUID

from moirae.notify.routing.grouping import Policy, decide_cause
from tests.unit.moirae.notify.builders import (
    START,
    at,
    describe,
    make_alert,
    make_grouping,
    make_tree,
    run,
)

ROUTE = {
    "receiver": "ops",
    "group_by": ["host"],
    "group_wait": "1s",
    "group_interval": "5s",
    "repeat_interval": "20s",
}


def test_group_waits_then_tells_changes_at_its_interval_and_repeats() -> None:
    grouping = make_grouping(ROUTE)
    grouping.put(make_alert("A", host="a"), START)
    assert run(grouping, 2) == [(1.0, "ops", ["A firing"])]
    grouping.put(make_alert("B", 3, host="a"), at(3))
    assert run(grouping, 7) == [(6.0, "ops", ["A firing", "B firing"])]
    # A tick at which exactly `repeat_interval` has passed does not repeat yet, as in Alertmanager.
    assert run(grouping, 40) == [(31.0, "ops", ["A firing", "B firing"])]


def test_group_waits_for_others_of_a_rule_whose_condition_has_held_long_before() -> None:
    grouping = make_grouping(ROUTE)
    for name, seconds in (("A", 0.0), ("B", 0.5)):
        fired = replace(make_alert(name, seconds, host="a"), starts_at=at(-600))
        grouping.put(fired, at(seconds))
    assert run(grouping, 2) == [(1.0, "ops", ["A firing", "B firing"])]


def test_group_with_a_posted_alert_that_began_long_before_is_told_at_once() -> None:
    """As in Alertmanager, which may have been restarted since."""
    grouping = make_grouping(ROUTE)
    posted = replace(make_alert("A", host="a"), starts_at=at(-600), rule="external/A")
    grouping.put(posted, at(0))
    assert run(grouping, 2) == [(0.0, "ops", ["A firing"])]


def test_end_is_told_at_the_next_interval_and_the_alert_forgotten() -> None:
    grouping = make_grouping(ROUTE)
    grouping.put(make_alert("A", host="a"), START)
    run(grouping, 2)
    grouping.put(make_alert("A", 0, ended=3, host="a"), at(3))
    assert run(grouping, 29) == [(6.0, "ops", ["A resolved"])]
    assert not grouping.alerts
    run(grouping, 40)
    assert not grouping.groups


def test_alert_that_ends_before_its_first_message_is_not_told() -> None:
    grouping = make_grouping(ROUTE)
    grouping.put(make_alert("A", host="a"), START)
    grouping.put(make_alert("A", 0, ended=0.5, host="a"), at(0.5))
    assert run(grouping, 30) == []


def test_receiver_that_wants_no_ends_is_told_that_an_alert_fires_again() -> None:
    grouping = make_grouping(ROUTE, ops={"send_resolved": False})
    grouping.put(make_alert("A", host="a"), START)
    run(grouping, 2)
    grouping.put(make_alert("A", 0, ended=3, host="a"), at(3))
    assert run(grouping, 7) == []
    grouping.put(make_alert("A", 8, host="a"), at(8))
    assert [message[2] for message in run(grouping, 12)] == [["A firing"]]


def test_resolved_wait_tells_the_end_of_a_whole_group_early() -> None:
    grouping = make_grouping({**ROUTE, "resolved_wait": "1s"})
    grouping.put(make_alert("A", host="a"), START)
    grouping.put(make_alert("B", host="a"), START)
    run(grouping, 2)
    grouping.put(make_alert("A", 0, ended=2, host="a"), at(2))
    assert run(grouping, 3) == []
    grouping.put(make_alert("B", 0, ended=3, host="a"), at(3))
    assert run(grouping, 5) == [(4.0, "ops", ["A resolved", "B resolved"])]


def test_changes_only_names_what_changed_and_repeats_the_rest_in_time() -> None:
    grouping = make_grouping({**ROUTE, "changes_only": True})
    grouping.put(make_alert("A", host="a"), START)
    run(grouping, 2)
    grouping.put(make_alert("B", 3, host="a"), at(3))
    assert run(grouping, 7) == [(6.0, "ops", ["B firing"])]
    grouping.put(make_alert("B", 3, ended=8, host="a"), at(8))
    assert run(grouping, 12) == [(11.0, "ops", ["B resolved"])]
    assert run(grouping, 30) == [(26.0, "ops", ["A firing"])]


def test_acknowledged_alerts_are_not_repeated() -> None:
    grouping = make_grouping(ROUTE)
    grouping.put(make_alert("A", host="a"), START)
    grouping.put(make_alert("B", host="a"), START)
    run(grouping, 2)
    grouping.put(make_alert("A", host="a", is_acknowledged=True), at(3))
    assert run(grouping, 30) == [(26.0, "ops", ["B firing"])]
    grouping.put(make_alert("B", host="a", is_acknowledged=True), at(31))
    assert run(grouping, 90) == []
    grouping.put(make_alert("A", 0, ended=91, host="a", is_acknowledged=True), at(91))
    assert [message[2] for message in run(grouping, 100)] == [["A resolved", "B firing"]]


def test_state_continues_in_another_process() -> None:
    grouping = make_grouping(ROUTE)
    grouping.put(make_alert("A", host="a"), START)
    run(grouping, 2)
    changes = grouping.take_changes()
    successor = make_grouping(ROUTE)
    successor.restore(changes.groups, changes.log, [make_alert("A", host="a")])
    successor.put(make_alert("B", 3, host="a"), at(3))
    assert run(successor, 7) == [(6.0, "ops", ["A firing", "B firing"])]


def test_alert_that_no_route_takes_is_known_while_it_fires() -> None:
    grouping = make_grouping({**ROUTE, "matchers": ["host=a"]})
    grouping.put(make_alert("A", host="b"), START)
    assert len(grouping.alerts) == 1, "other routes may take it"
    grouping.put(make_alert("A", 0, ended=1, host="b"), at(1))
    assert not grouping.alerts


def test_other_routes_keep_the_groups_of_routes_that_remain() -> None:
    grouping = make_grouping(ROUTE)
    grouping.put(make_alert("A", host="a"), START)
    run(grouping, 2)
    policy = Policy(make_tree(ROUTE, {"receiver": "new"}), {})
    grouping.replace_policy(policy, at(3))
    assert run(grouping, 7) == []
    policy = Policy(make_tree({**ROUTE, "receiver": "new"}), {})
    grouping.replace_policy(policy, at(8))
    messages = grouping.flush_due(at(10))
    assert [(message.receiver, describe(message)) for message in messages] == [
        ("new", ["A firing"])
    ]


def test_muted_route_sends_nothing() -> None:
    grouping = make_grouping(ROUTE)
    (node,) = grouping.policy.root.children
    object.__setattr__(node, "muted", [type("Always", (), {"contains": lambda *_: True})()])
    grouping.put(make_alert("A", host="a"), START)
    assert run(grouping, 30) == []


def test_causes_are_those_of_alertmanager() -> None:
    assert decide_cause(None, frozenset(), frozenset("a"), True) is None
    assert decide_cause(None, frozenset("a"), frozenset(), True) == "first"


def test_start_that_settling_moves_is_told_under_the_same_key() -> None:
    grouping = make_grouping(ROUTE)
    alert = make_alert("A", 1, host="a")
    grouping.put(alert, START)
    run(grouping, 2)
    grouping.put(replace(alert, starts_at=at(0)), at(3))
    (message,) = grouping.flush_due(at(6))
    assert (message.cause, message.group_key) == ("update", '{}/{}:{host="a"}')
    assert message.alerts[0].starts_at == at(0)
    assert run(grouping, 20) == []


def test_alert_that_begins_anew_is_no_update() -> None:
    """As in Alertmanager: between two messages it has fired all the time."""
    grouping = make_grouping(ROUTE)
    grouping.put(make_alert("A", 0, host="a"), START)
    run(grouping, 2)
    grouping.put(make_alert("A", 0, ended=3, host="a"), at(3))
    grouping.put(make_alert("A", 4, host="a"), at(4))
    assert grouping.flush_due(at(6)) == []


BY_INCIDENT = {**ROUTE, "group_by": ["incident"]}


def test_alerts_of_one_incident_are_told_in_one_message() -> None:
    grouping = make_grouping(BY_INCIDENT)
    for name, incident in (("A", 1), ("B", 1), ("C", 2)):
        alert = replace(make_alert(name, host=name), incident=UUID(int=incident))
        grouping.put(alert, START)
    told = [alerts for _, _, alerts in run(grouping, 2)]
    assert sorted(told) == [["A firing", "B firing"], ["C firing"]]


def test_alerts_in_no_incident_are_told_apart() -> None:
    grouping = make_grouping(BY_INCIDENT)
    for name in ("A", "B"):
        grouping.put(make_alert(name, host=name), START)
    assert sorted(alerts for _, _, alerts in run(grouping, 2)) == [["A firing"], ["B firing"]]


def test_alert_ends_in_the_group_in_which_it_was_told() -> None:
    grouping = make_grouping(BY_INCIDENT)
    alert = replace(make_alert("A", host="a"), incident=UUID(int=1))
    grouping.put(alert, START)
    run(grouping, 2)
    ended = make_alert("A", 0, ended=3, host="a")
    grouping.put(replace(ended, id=alert.id, incident=UUID(int=2)), at(3))
    assert run(grouping, 29) == [(6.0, "ops", ["A resolved"])]
    assert not grouping.alerts
