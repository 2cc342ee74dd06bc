"""Episodes of events."""

from recall.learning.episodes import number_episodes


def test_episode_ends_a_gap_after_its_first_event_and_does_not_chain() -> None:
    events = [("a", 0), ("a", 4), ("b", 5), ("a", 10), ("a", 11), ("a", 14), ("b", 30)]
    assert number_episodes(events, gap=10) == [0, 0, 1, 0, 2, 2, 3]
    assert number_episodes([("a", 0), ("a", 0), ("a", 1)], gap=0) == [0, 0, 1]
