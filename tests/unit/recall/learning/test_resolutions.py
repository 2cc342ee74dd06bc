"""From when on the tag of an event may be used."""

from recall.learning.resolutions import GroupedEvent, find_usable_times


def test_tag_is_usable_when_known_and_its_event_is_old_enough() -> None:
    events = [
        GroupedEvent("a", 100, None),
        GroupedEvent("b", 100, None),
        GroupedEvent("c", 100, None),
    ]
    assert find_usable_times(events, {"a": 105, "b": 150}, gap=10) == {"a": 110, "b": 150}


def test_event_of_the_same_time_is_not_older() -> None:
    assert find_usable_times([GroupedEvent("a", 100, None)], {"a": 0}, gap=0) == {"a": 101}


def test_group_is_usable_once_its_last_event_is_old_enough() -> None:
    events = [GroupedEvent("a", 100, "g"), GroupedEvent("b", 300, "g")]
    assert find_usable_times(events, {"a": 105}, gap=10) == {"a": 310}


def test_group_of_events_before_1970_is_usable_once_its_last_event_is_old_enough() -> None:
    events = [GroupedEvent("a", -300, "g"), GroupedEvent("b", -100, "g")]
    assert find_usable_times(events, {"a": -290}, gap=10) == {"a": -90}
