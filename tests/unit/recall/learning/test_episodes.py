"""Which events belong to one episode, and how many contexts it has."""

from recall.learning.episodes import Episodes, number_episodes


def test_events_within_the_gap_of_the_first_are_one_episode_without_a_chain() -> None:
    times = [0, 60, 100, 101, 150, 260]
    events = [("a", ts) for ts in times]
    assert number_episodes(events, gap=100) == [0, 0, 0, 1, 1, 2]


def test_each_key_has_episodes_of_its_own() -> None:
    events = [("a", 0), ("b", 1), ("a", 2), ("b", 200), ("a", 201)]
    assert number_episodes(events, gap=100) == [0, 1, 0, 2, 3]


def test_different_contexts_of_an_episode_are_counted() -> None:
    episodes = Episodes(gap=100)
    assert episodes.add("a", 0, "x") == 1
    assert episodes.add("a", 0, "x") == 0
    assert [episodes.add("a", 10, context) for context in ("y", "z", "y")] == [2, 3, 0]
    assert episodes.add("a", 101, "x") == 1


def test_event_that_becomes_known_late_belongs_to_the_episode_after_it() -> None:
    episodes = Episodes(gap=100)
    assert episodes.add("a", 500, "x") == 1
    assert episodes.add("a", 450, "x") == 0
    assert episodes.add("a", 300, "x") == 1
