"""Candidates of an alert, and the order of its hits."""

from datetime import timedelta

import pytest

from recall.relevance.rankers.ready_contexts import AlertContext, find_similar, rank_similar
from recall.similarity.measures import MEASURES
from tests.unit.recall.contexts import E1, E2, E3, HOUR, make_alerts, pairs

TFIDF, BINARY = MEASURES["tfidf"], MEASURES["binary"]
NO_GAP = timedelta(0)


def test_equal_scores_are_ordered_newest_first() -> None:
    rows = rank_similar(make_alerts(*[E1] * 5, {"z=1": 1}, E1), NO_GAP, 3, TFIDF)
    assert pairs(rows)[-3:] == [("e7", "e5"), ("e7", "e4"), ("e7", "e3")]


def test_equal_times_are_ordered_by_position() -> None:
    alerts = make_alerts({"z=1": 1}, E1, E1, E1, hours=[1, 0, 0, 2])
    assert pairs(rank_similar(alerts, NO_GAP, 10, TFIDF)) == [("e4", "e3"), ("e4", "e2")]


def test_higher_score_precedes_newer_event() -> None:
    rows = rank_similar(make_alerts(E3, E2, E1, E3), NO_GAP, 10, BINARY)
    ranks = [(event, rank) for query, rank, event, _ in rows if query == "e4"]
    assert ranks == [("e1", 1), ("e2", 2), ("e3", 3)]


def test_candidates_are_older_by_the_gap_at_least() -> None:
    alerts = make_alerts(E1, E1, {"z=1": 1}, E1, hours=[0, 1, 2, 6])
    exact_gap = rank_similar(alerts, timedelta(hours=5), 10, TFIDF)
    assert pairs(exact_gap) == [("e4", "e2"), ("e4", "e1")]
    longer_gap = rank_similar(alerts, timedelta(hours=5, seconds=1), 10, TFIDF)
    assert pairs(longer_gap) == [("e4", "e1")]


def test_alert_of_the_same_time_is_not_a_candidate() -> None:
    assert list(rank_similar(make_alerts(E1, E1, hours=[0, 0]), NO_GAP, 10, BINARY)) == []


def test_alert_of_another_type_is_not_a_candidate() -> None:
    alerts = [
        *make_alerts(E1),
        AlertContext("other", "u", HOUR, E1),
        AlertContext("last", "t", 2 * HOUR, E1),
    ]
    assert pairs(rank_similar(alerts, NO_GAP, 10, BINARY)) == [("last", "e1")]


def test_leave_one_out_compares_with_newer_alerts_and_ignores_the_gap() -> None:
    alerts = make_alerts(E1, E1, E3)
    rows = rank_similar(alerts, timedelta(hours=5), 10, BINARY, leave_one_out=True)
    assert pairs(rows) == [
        ("e1", "e2"),
        ("e1", "e3"),
        ("e2", "e1"),
        ("e2", "e3"),
        ("e3", "e2"),
        ("e3", "e1"),
    ]


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_alert_of_the_same_group_is_not_a_hit(leave_one_out: bool) -> None:
    alerts = []
    for number, group in enumerate(["a", "a", None, "b", "a"]):
        alerts.append(AlertContext(str(number), "t", number * HOUR, E1, group))
    rows = pairs(rank_similar(alerts, NO_GAP, 10, BINARY, leave_one_out))
    assert [event for query, event in rows if query == "4"] == ["3", "2"]
    assert len(rows) == (14 if leave_one_out else 7)


def test_only_requested_alerts_are_answered() -> None:
    answers = list(find_similar(make_alerts(E1, E1, E1), NO_GAP, 5, BINARY, event_ids={"e3"}))
    assert [answer.query.event_id for answer in answers] == ["e3"]
    assert [past.event_id for past, _ in answers[0].hits] == ["e2", "e1"]
