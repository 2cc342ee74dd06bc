"""Feedback as gains of candidates, and as known kinds."""

from dataclasses import replace
from datetime import timedelta

from moirae.feedback.judgements import JudgedCorpus
from recall.relevance.rankers.ready_contexts import AlertContext, iter_candidate_sets
from tests.unit.recall.contexts import HOUR


def _corpus(group: str | None = None) -> JudgedCorpus:
    """e0, e1 and e3 are of one kind. For e3, e0 was judged not to help and e2 to help."""
    alerts = []
    for number in range(4):
        alerts.append(AlertContext(f"e{number}", "t", number * HOUR, {"a=1": 1}, group))
    kinds = {"e0": "x", "e1": "x", "e3": "x"}
    return JudgedCorpus("", alerts, kinds, {("e3", "e0"): False, ("e3", "e2"): True})


def test_judgement_has_a_higher_gain_than_the_same_kind() -> None:
    corpus = _corpus()
    *_, last = iter_candidate_sets(corpus.alerts, timedelta(0))
    assert corpus.gains_of(last) == {"e1": 1, "e2": 2}


def test_excluded_candidates_have_no_gain() -> None:
    corpus = _corpus(group="g")
    *_, last = iter_candidate_sets(corpus.alerts, timedelta(0))
    assert corpus.gains_of(last) == {}


def test_judgement_takes_precedence_over_the_kind() -> None:
    corpus = _corpus()
    assert [corpus.is_same_kind("e3", past) for past in ("e0", "e1", "e2")] == [False, True, True]


def test_kind_of_an_event_without_feedback_is_unknown() -> None:
    assert _corpus().is_same_kind("e2", "e0") is None


def test_episodes_are_those_of_final_kinds_and_else_of_equal_terms() -> None:
    corpus = replace(_corpus(), gap=timedelta(hours=2))
    assert corpus.number_episodes() == {"e0": 0, "e1": 0, "e2": 1, "e3": 2}
