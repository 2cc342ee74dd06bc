"""When an outage of a topic is said."""

from moirae.live.sources.topics.outage import SourceProblem, TopicOutage

AWAY = SourceProblem("away", "the brokers do not answer")
MISSING = SourceProblem("missing", "no topic")


def test_outage_is_said_once_after_some_seconds() -> None:
    now = 100.0
    outage = TopicOutage(lambda: now)
    assert not outage.record(AWAY)
    assert outage.problem is None
    now += 3
    assert not outage.record(AWAY)
    now += 3
    assert outage.record(AWAY)
    assert outage.problem == AWAY
    now += 3
    assert not outage.record(AWAY)
    assert outage.record(MISSING)
    assert outage.problem == MISSING


def test_short_outage_is_not_said() -> None:
    now = 100.0
    outage = TopicOutage(lambda: now)
    outage.record(AWAY)
    now += 4
    assert not outage.end()
    now += 4
    assert not outage.record(AWAY)


def test_end_is_said_of_an_outage_that_was_said() -> None:
    now = 100.0
    outage = TopicOutage(lambda: now)
    outage.record(AWAY)
    now += 6
    outage.record(AWAY)
    assert outage.end()
    assert outage.problem is None
    assert not outage.end()


def test_tries_become_rarer_and_a_drain_ends() -> None:
    now = 100.0
    outage = TopicOutage(lambda: now)
    pauses = []
    for _ in range(8):
        outage.record(AWAY)
        pauses.append(outage.pause)
        now += 1
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert not outage.is_given_up
    now += 20
    assert outage.is_given_up
