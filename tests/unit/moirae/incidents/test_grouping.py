"""Groups of alerts: overlapping failures with known truth, decisions, restarts."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from moirae.alerts import make_incident_id
from moirae.incidents import (
    AlertFeatures,
    Decision,
    Grouper,
    GroupingPolicy,
    make_features,
    propose_incidents,
)
from moirae.topology import make_topology
from tests.unit.moirae.incidents.worlds import SECOND, make_world, score_pairs

MINUTE = 60 * SECOND
NO_TOPOLOGY = make_topology([])


def make_alert(
    number: int, start: int, series: str = "", place: str = "", terms: tuple[str, ...] = ()
) -> AlertFeatures:
    key = {"host": place} if place else {}
    return AlertFeatures(
        UUID(int=number), series or place, start, make_features(terms, key, NO_TOPOLOGY, 1, ())
    )


@pytest.mark.parametrize("seed", range(5))
def test_overlapping_failures_are_told_apart(seed: int) -> None:
    world = make_world(seed)
    groups = {placed.alert: placed.incident for placed in propose_incidents(world.alerts)}
    precision, recall = score_pairs(groups, world.failures)
    by_time = {alert.id: alert.start // (10 * MINUTE) for alert in world.alerts}
    assert precision >= 0.9
    assert recall >= 0.6
    assert precision > score_pairs(by_time, world.failures)[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_changes_nothing(seed: int) -> None:
    world = make_world(seed)
    uninterrupted = propose_incidents(world.alerts)
    for cut in (1, len(world.alerts) // 2, len(world.alerts) - 1):
        grouper = Grouper()
        for alert, placed in zip(world.alerts[:cut], uninterrupted, strict=False):
            grouper.put(alert, placed.incident)
        assert [grouper.place(alert) for alert in world.alerts[cut:]] == uninterrupted[cut:]


def test_incident_begins_with_its_first_alert() -> None:
    first, second = make_alert(1, 0, place="a1"), make_alert(2, MINUTE, "disk", "a1")
    placed = propose_incidents([second, first])
    assert [entry.alert for entry in placed] == [first.id, second.id]
    assert {entry.incident for entry in placed} == {make_incident_id(first.id)}
    assert placed[1].reason == (
        "1 min after the alert before it; 1 place in common: host=a1 (overlap 1.00)"
    )


def test_alerts_far_in_time_or_place_are_apart() -> None:
    alerts = [
        make_alert(1, 0, place="a1"),
        make_alert(2, 6 * MINUTE, place="a1"),
        make_alert(3, 6 * MINUTE, place="a2"),
        make_alert(4, 6 * MINUTE),
    ]
    assert len({placed.incident for placed in propose_incidents(alerts)}) == 4


@pytest.mark.parametrize(("steps", "incidents"), [(0, 2), (1, 1)])
def test_neighbours_of_the_topology_are_near(steps: int, incidents: int) -> None:
    topology = make_topology([("web", "db")])
    keys = [{"host": "web"}, {"service": "db"}]
    alerts = [
        AlertFeatures(UUID(int=number), "", number, make_features((), key, topology, steps, ()))
        for number, key in enumerate(keys)
    ]
    assert len({placed.incident for placed in propose_incidents(alerts)}) == incidents


def test_the_same_change_before_both_makes_one_incident() -> None:
    changes = ["deploys web v2"]
    alerts = [
        AlertFeatures(
            UUID(int=number), host, 0, make_features((), {"host": host}, NO_TOPOLOGY, 1, changes)
        )
        for number, host in enumerate(("a1", "a2"))
    ]
    assert len({placed.incident for placed in propose_incidents(alerts)}) == 1


def test_threshold_decides() -> None:
    alerts = [
        make_alert(1, 0, "a", terms=("x=1", "x=2")),
        make_alert(2, 0, "b", terms=("x=1", "x=3")),
    ]
    low, high = GroupingPolicy(threshold=0.2), GroupingPolicy(threshold=0.6)
    assert len({placed.incident for placed in propose_incidents(alerts, low)}) == 1
    assert len({placed.incident for placed in propose_incidents(alerts, high)}) == 2


def decide(kind: str, day: int, left: str, right: str) -> Decision:
    at = datetime(2026, 3, day, tzinfo=UTC)
    return Decision(kind, at, "ada", frozenset([left]), frozenset([right]))  # type: ignore[arg-type]


def test_a_split_lasts_for_later_alerts() -> None:
    first, second = make_alert(1, 0, "cpu", "a1"), make_alert(2, 1, "disk", "a1")
    split = decide("split", 1, "disk", "cpu")
    assert len({entry.incident for entry in propose_incidents([first, second])}) == 1
    placed = propose_incidents([first, second], decisions=[split])
    assert [entry.incident for entry in placed] == list(
        map(make_incident_id, (first.id, second.id))
    )


def test_a_merge_lasts_for_later_alerts() -> None:
    alerts = [make_alert(1, 0, "cpu", "a1"), make_alert(2, MINUTE, "disk", "a2")]
    merge = decide("merge", 2, "disk", "cpu")
    placed = propose_incidents(alerts, decisions=[decide("split", 1, "disk", "cpu"), merge])
    assert placed[1].incident == make_incident_id(alerts[0].id)
    assert placed[1].reason == "ada merged alerts of these rules and keys on 2026-03-02"
    later = [alerts[0], make_alert(2, 6 * MINUTE, "disk", "a2")]
    assert len({entry.incident for entry in propose_incidents(later, decisions=[merge])}) == 2


def test_the_newest_decision_counts() -> None:
    alerts = [make_alert(1, 0, "cpu", "a1"), make_alert(2, 1, "disk", "a1")]
    decisions = [decide("merge", 1, "cpu", "disk"), decide("split", 2, "cpu", "disk")]
    assert len({entry.incident for entry in propose_incidents(alerts, decisions=decisions)}) == 2


def test_decisions_about_one_series_do_not_part_it() -> None:
    alerts = [make_alert(number, number, "cpu", "a1") for number in range(3)]
    split = decide("split", 1, "cpu", "cpu")
    assert len({entry.incident for entry in propose_incidents(alerts, decisions=[split])}) == 1


def test_a_long_incident_goes_on() -> None:
    alerts = [make_alert(number, number * 4 * MINUTE, place="a1") for number in range(2_000)]
    assert len({placed.incident for placed in propose_incidents(alerts)}) == 1
