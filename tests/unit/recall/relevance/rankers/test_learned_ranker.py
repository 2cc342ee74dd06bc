"""The measure `learned` in time order: what it knows, and what it must not know."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from recall.learning import Resolution
from recall.relevance.quality import evaluate
from recall.relevance.rankers.learned_ranker import (
    FrequencyRanker,
    LearnedRanker,
    LeaveOneOutRanker,
)
from recall.relevance.rankers.ready_contexts import (
    AlertContext,
    CandidateSet,
    find_similar,
    iter_candidate_sets,
    rank_by,
)
from recall.similarity.measures import MEASURES
from tests.unit.recall.relevance.incidents import make_incidents

HOUR = 3_600_000_000  # microseconds
GAP = timedelta(hours=1)
ATTRIBUTES = rank_by(MEASURES["attributes"])


def make_resolutions(
    alerts: Iterable[AlertContext], kinds: dict[str, str], delay: int = HOUR
) -> list[Resolution]:
    return [
        Resolution(alert.event_id, kinds[alert.event_id], alert.ts + delay)
        for alert in alerts
        if alert.event_id in kinds
    ]


def rank_all(
    alerts: Sequence[AlertContext], resolutions: Sequence[Resolution], event_ids: set[str]
) -> dict[str, list[tuple[str, float]]]:
    ranker = LearnedRanker(alerts, resolutions, HOUR)
    answers = {}
    for answer in find_similar(alerts, GAP, 10, ranker, event_ids=event_ids):
        hits = [(past.event_id, score) for past, score in answer.hits]
        answers[answer.query.event_id] = hits
    return answers


def precision(alerts: Sequence[AlertContext], kinds: dict[str, str], ranker: object) -> float:
    """P@10 of the later half of the alerts."""
    corpus = replace(make_incidents(1), alerts=alerts, kinds=kinds)
    evaluation = evaluate(alerts, corpus.gains_of, {"r": ranker}, GAP)  # type: ignore[dict-item]
    values = evaluation.values["r"]
    return float(np.mean([row[2] for row in values[len(values) // 2 :]]))


def test_online_answers_equal_those_of_a_run_with_only_the_past() -> None:
    corpus = make_incidents(60)
    alerts, kinds = list(corpus.alerts), dict(corpus.kinds)
    resolutions = make_resolutions(alerts, kinds, delay=20 * HOUR)
    event_ids = {alert.event_id for alert in alerts[5::23]}
    online = rank_all(alerts, resolutions, event_ids)
    for number in range(5, len(alerts), 23):
        query = alerts[number]
        known = [resolution for resolution in resolutions if resolution.known_at <= query.ts]
        past_only = rank_all(alerts[: number + 1], known, {query.event_id})
        assert past_only[query.event_id] == online[query.event_id]


def test_ranks_as_attributes_before_anything_is_learned() -> None:
    corpus = make_incidents(10)
    resolutions = make_resolutions(corpus.alerts, dict(corpus.kinds), delay=10_000 * HOUR)
    expected = {}
    for answer in find_similar(corpus.alerts, GAP, 10, MEASURES["attributes"]):
        expected[answer.query.event_id] = [(past.event_id, score) for past, score in answer.hits]
    event_ids = {alert.event_id for alert in corpus.alerts}
    assert rank_all(corpus.alerts, resolutions, event_ids) == expected


def test_learns_to_rank_better_than_every_other_measure() -> None:
    corpus = make_incidents(120)
    kinds = dict(corpus.kinds)
    ranker = LearnedRanker(corpus.alerts, make_resolutions(corpus.alerts, kinds), HOUR)
    learned = precision(corpus.alerts, kinds, ranker)
    for measure in MEASURES.values():
        assert learned > precision(corpus.alerts, kinds, rank_by(measure)) + 0.05


@pytest.mark.slow
def test_wrong_tags_do_not_make_it_worse() -> None:
    """One tag for all, a tenth wrong, renamed, another meaning, merged: P@10 by kinds stays."""
    corpus = make_incidents(120)
    kinds = dict(corpus.kinds)
    expected = precision(corpus.alerts, kinds, ATTRIBUTES)
    rng = np.random.default_rng(3)
    equal_tags = dict.fromkeys(kinds, "same")
    wrong_tags = {
        event: kinds[f"e{rng.integers(len(kinds))}"] if rng.random() < 0.1 else tag
        for event, tag in kinds.items()
    }
    middle = corpus.alerts[len(corpus.alerts) // 2].ts
    later = {alert.event_id for alert in corpus.alerts if alert.ts >= middle}
    renamed_tags = {event: f"new {tag}" if event in later else tag for event, tag in kinds.items()}
    names = sorted(set(kinds.values()))
    following = dict(zip(names, [*names[1:], names[0]], strict=True))
    drifted_tags = {
        event: following[tag] if event in later else tag for event, tag in kinds.items()
    }
    merged_tags = {event: "merged" if tag in names[:2] else tag for event, tag in kinds.items()}
    changes = {
        "equal": equal_tags,
        "wrong": wrong_tags,
        "renamed": renamed_tags,
        "drifted": drifted_tags,
        "merged": merged_tags,
    }
    losses = {}
    for name, tags in changes.items():
        ranker = LearnedRanker(corpus.alerts, make_resolutions(corpus.alerts, tags), HOUR)
        losses[name] = expected - precision(corpus.alerts, kinds, ranker)
    assert max(losses.values()) <= 0.01, losses


def test_group_is_never_learned_before_its_last_alert_is_old_enough() -> None:
    corpus = make_incidents(5)
    alerts = [replace(alert, group=str(number // 4)) for number, alert in enumerate(corpus.alerts)]
    ranker = LearnedRanker(alerts, make_resolutions(alerts, dict(corpus.kinds)), HOUR)
    counts = []

    def count_resolutions(candidate_set: CandidateSet) -> np.ndarray:
        counts.append(ranker.resolution_count(candidate_set))
        return ranker(candidate_set)

    list(find_similar(alerts, GAP, 10, count_resolutions))
    # Alerts are 6 hours apart: a group of four is learned at once, when the next begins.
    assert counts == [number // 4 * 4 for number in range(1, len(alerts))]


def test_tag_is_used_from_the_time_on_when_it_is_known() -> None:
    corpus = make_incidents(5)
    first = Resolution("e0", "disk", corpus.alerts[7].ts)
    ranker = LearnedRanker(corpus.alerts, [first], HOUR)
    counts = []

    def count_resolutions(candidate_set: CandidateSet) -> np.ndarray:
        counts.append(ranker.resolution_count(candidate_set))
        return ranker(candidate_set)

    list(find_similar(corpus.alerts, GAP, 10, count_resolutions))
    assert counts == [0] * 6 + [1] * (len(corpus.alerts) - 7)


def test_forecast_names_a_tag_that_was_just_seen_for_the_first_time() -> None:
    corpus = make_incidents(40)
    last = corpus.alerts[-1]
    alerts = [
        *corpus.alerts,
        AlertContext("first", "t", last.ts + 6 * HOUR, {"msg=flood": 1, "water=high": 1}),
        AlertContext("second", "t", last.ts + 12 * HOUR, {"msg=flood": 1, "water=high": 1}),
    ]
    kinds = {**corpus.kinds, "first": "flood", "second": "flood"}
    ranker = LearnedRanker(alerts, make_resolutions(alerts, kinds), HOUR)
    forecasts = {}

    def forecast(candidate_set: CandidateSet) -> np.ndarray:
        forecasts[candidate_set.alert.event_id] = ranker.forecast(candidate_set, 4)
        return ranker(candidate_set)

    list(find_similar(alerts, GAP, 1, forecast))
    assert forecasts["second"].tags[0][0] == "flood"
    for forecast_ in forecasts.values():
        total = sum(probability for _, probability in forecast_.tags) + forecast_.new_tag
        assert total == pytest.approx(1)


@pytest.mark.slow
def test_leaving_one_out_does_not_know_the_tags_of_the_own_group() -> None:
    """Contexts say nothing but the group: knowing its tag would be the only way to be right."""
    rng = np.random.default_rng(5)
    right = []
    for _ in range(3):
        alerts = []
        kinds = {}
        # Not as many of each kind: what is left out would then tell the kind.
        kind_by_group = rng.choice(["disk", "cpu"], 12).tolist()
        for number in range(24):
            event_id = f"e{number}"
            group = str(number // 2)
            terms = {f"g={group}": 1, "a=1": 1}
            alerts.append(AlertContext(event_id, "t", number * HOUR, terms, group))
            kinds[event_id] = kind_by_group[number // 2]
        ranker = LeaveOneOutRanker(make_resolutions(alerts, kinds))
        for candidate_set in iter_candidate_sets(alerts, GAP, leave_one_out=True):
            best = ranker.forecast(candidate_set, 1).tags[0]
            right.append(best[0] == kinds[candidate_set.alert.event_id])
    assert len(right) == 72
    assert sum(right) <= 48


def test_frequency_ranks_the_most_frequent_tag_first() -> None:
    corpus = make_incidents(20)
    *_, last = iter_candidate_sets(corpus.alerts, GAP)
    tags = np.full(last.candidate_count, -1, dtype=np.int32)
    tags[[1, 4, 6]], tags[2] = 1, 0
    scores = FrequencyRanker(lambda _: tags)(last)
    assert scores[[1, 4, 6]].tolist() == [3, 3, 3]
    assert scores[2] == 1 and np.count_nonzero(scores) == 4


@pytest.mark.slow
def test_leaving_one_out_uses_neither_times_nor_positions() -> None:
    """With other times, and so in another order, each alert has the same answer."""
    corpus = make_incidents(4)
    alerts = [replace(alert, group=alert.event_id) for alert in corpus.alerts]
    resolutions = make_resolutions(alerts, dict(corpus.kinds))
    order = np.random.default_rng(3).permutation(len(alerts))
    permuted = [
        replace(alert, ts=alerts[position].ts)
        for alert, position in zip(alerts, order.tolist(), strict=True)
    ]
    answers = []
    for each in (alerts, permuted):
        ranker = LeaveOneOutRanker(resolutions)
        hits_by_event = {}
        for answer in find_similar(each, GAP, 10, ranker, leave_one_out=True):
            hits = [(past.event_id, score) for past, score in answer.hits]
            hits_by_event[answer.query.event_id] = hits
        answers.append(hits_by_event)
    assert answers[0] == answers[1]
