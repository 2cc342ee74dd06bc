"""How far a change is from an alert."""

import pytest

from moirae.topology import make_topology, surround

TOPOLOGY = make_topology([("web", "db"), ("db", "disk"), ("a", "web"), ("b", "web")])


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        ({"host": "a"}, 0),
        ({"host": "a", "service": "web"}, 0),
        ({}, 0),  # it concerns every place
        ({"host": "c"}, None),
        ({"region": "eu"}, None),
        ({"service": "web"}, 1),
        ({"host": "b", "service": "web"}, 2),
        ({"service": "db"}, 2),
        ({"service": "disk"}, None),
    ],
)
def test_a_place_is_near_by_its_names_or_by_steps_of_the_topology(
    place: dict[str, str], steps: int | None
) -> None:
    assert surround({"host": "a"}, TOPOLOGY, 2).distance(place) == steps


def test_without_a_topology_only_names_of_the_key_count() -> None:
    surrounding = surround({"host": "a"}, make_topology([]), 3)
    assert surrounding.distance({"host": "a"}) == 0
    assert surrounding.distance({"instance": "a"}) is None
    assert surrounding.distance({"host": "b"}) is None


def test_an_alert_without_a_key_has_only_changes_of_every_place() -> None:
    surrounding = surround({}, TOPOLOGY, 2)
    assert surrounding.distance({}) == 0
    assert surrounding.distance({"host": "a"}) is None
