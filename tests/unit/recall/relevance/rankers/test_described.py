"""A described state is compared as an event with these terms would be."""

from datetime import timedelta

import pytest

from recall.relevance.rankers import AlertContext, find_similar, rank_described
from recall.similarity.measures import MEASURES

# The worked example of the paper (§3.5).
E1 = AlertContext("e1", "r", 1, {"user=u1": 1, "proc=p1": 1})
E2 = AlertContext("e2", "r", 2, {"user=u2": 1, "user=u3": 1, "proc=p2": 1, "proc=p3": 1})
TERMS = ["user=u2", "proc=p1", "proc=p3"]


def test_scores_are_those_of_the_paper() -> None:
    hits = rank_described([E2, E1], TERMS, 10, MEASURES["tfidf"])
    assert [(hit.alert.event_id, round(hit.score, 3)) for hit in hits] == [
        ("e2", 0.283),
        ("e1", 0.2),
    ]
    assert [term for term, _ in hits[0].shared] == ["proc=p3", "user=u2"]
    assert sum(share for _, share in hits[0].shared) == pytest.approx(1)
    assert hits[0].only_described == ["proc=p1"]
    assert sorted(hits[0].only_past) == ["proc=p2", "user=u3"]


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_state_is_ranked_as_an_event_is(name: str) -> None:
    past = [
        AlertContext(str(number), "r", number, {f"a={number % 3}": 1, f"b={number % 5}": 2})
        for number in range(40)
    ]
    terms = ["a=1", "b=2", "b=2", "c=9"]
    event = AlertContext("new", "r", 99, {"a=1": 1, "b=2": 2, "c=9": 1})
    measure = MEASURES[name]
    (expected,) = find_similar([*past, event], timedelta(), 7, measure, event_ids={"new"})
    hits = rank_described(past, terms, 7, measure)
    assert [(hit.alert, hit.score) for hit in hits] == expected.hits


def test_empty_history_has_no_hits() -> None:
    assert rank_described([], TERMS, 3, MEASURES["tfidf"]) == []
