"""How `learned` does in a world: ranking by true causes, and probabilities by recorded tags."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from benchmarks.worlds.generator import GAP, DrawnWorld
from recall.learning import MIN_EPISODES, Resolution
from recall.relevance.rankers import (
    CandidateSet,
    LearnedRanker,
    Ranker,
    iter_candidate_sets,
    rank_by,
)
from recall.similarity.measures import MEASURES

Floats = npt.NDArray[np.float64]

_K = 10
# Of the alerts of one episode, how many are evaluated; and of how many episodes, evenly spread.
_ALERTS_PER_EPISODE = 3
_MAX_EPISODES = 1000
COMPARED_MEASURES = ("attributes",)


@dataclass(frozen=True)
class Outcomes:
    """One row for each evaluated alert.

    `episodes`: numbers. `resolved_episodes`: how many episodes had ended a gap before. `values`: by
    name, among them `p1`, `p10` of each measure and the log loss and Brier score of `learned` and
    `frequencies`; NaN where there is nothing to rank.
    """

    episodes: npt.NDArray[np.int64]
    resolved_episodes: npt.NDArray[np.int64]
    values: Mapping[str, Floats]
    predicted: Floats
    """Probability of the most probable label."""
    correct: Floats
    withheld: Floats
    """1 if there were too few episodes to say, else 0: frequencies are predicted then."""


def evaluate_world(drawn: DrawnWorld) -> Outcomes:
    """Rank and forecast some alerts of each episode, from what was known at their times."""
    resolutions = [
        Resolution(alert.event_id, drawn.tags[alert.event_id], alert.ts + GAP)
        for alert in drawn.alerts
    ]
    learned = LearnedRanker(drawn.alerts, resolutions, GAP)
    rankers: dict[str, Ranker] = {"learned": learned}
    rankers.update({name: rank_by(MEASURES[name]) for name in COMPARED_MEASURES})
    event_ids = _choose_alerts(drawn)
    resolved_episodes: set[int] = set()
    resolved_alerts = 0
    rows: list[dict[str, float]] = []
    episodes: list[int] = []
    resolved: list[int] = []
    predicted: list[float] = []
    correct: list[bool] = []
    withheld: list[bool] = []
    gap = timedelta(microseconds=GAP)
    for candidate_set in iter_candidate_sets(drawn.alerts, gap, event_ids=event_ids):
        alert = candidate_set.alert
        cause = drawn.causes[alert.event_id]
        past = candidate_set.candidates
        resolved_episodes.update(drawn.episodes[other.event_id] for other in past[resolved_alerts:])
        resolved_alerts = len(past)
        row: dict[str, float] = {}
        rankable = any(drawn.causes[other.event_id] == cause for other in past)
        for name, ranker in rankers.items():
            hits = candidate_set.rank(ranker, _K).hits if rankable else []
            relevant = [drawn.causes[hit.event_id] == cause for hit, _ in hits]
            row[f"p1 {name}"] = float(any(relevant[:1])) if rankable else np.nan
            row[f"p10 {name}"] = sum(relevant) / _K if rankable else np.nan
        if learned.resolution_count(candidate_set):
            forecast = _compare_forecast(learned, candidate_set)
            row.update(forecast.losses)
            predicted.append(forecast.best_probability)
            correct.append(forecast.is_correct)
            withheld.append(forecast.is_withheld)
            rows.append(row)
            episodes.append(drawn.episodes[alert.event_id])
            resolved.append(len(resolved_episodes))
    values = {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else {})}
    return Outcomes(
        np.array(episodes),
        np.array(resolved),
        values,
        np.array(predicted),
        np.array(correct, float),
        np.array(withheld, float),
    )


def _choose_alerts(drawn: DrawnWorld) -> set[str]:
    """The first alerts of each evaluated episode."""
    counts: dict[int, int] = {}
    chosen = set()
    step = -(-len(set(drawn.episodes.values())) // _MAX_EPISODES)
    for alert in drawn.alerts:
        episode = drawn.episodes[alert.event_id]
        counts[episode] = counts.get(episode, 0) + 1
        if episode % step == 0 and counts[episode] <= _ALERTS_PER_EPISODE:
            chosen.add(alert.event_id)
    return chosen


@dataclass(frozen=True)
class _ForecastOutcome:
    """`losses`: log loss and Brier score of `learned` and `frequencies`."""

    losses: Mapping[str, float]
    best_probability: float
    is_correct: bool
    is_withheld: bool


def _compare_forecast(learned: LearnedRanker, candidate_set: CandidateSet) -> _ForecastOutcome:
    probabilities, new_tag = learned.tag_probabilities(candidate_set)
    tag = learned.find_tag(candidate_set)
    labels = np.append(probabilities, new_tag)
    label = len(probabilities) if tag is None else tag
    model = learned.model(candidate_set)
    frequencies = model.frequencies()
    is_withheld = model.history.episode_count < MIN_EPISODES
    if is_withheld:
        labels = frequencies
    losses = {}
    for name, shares in (("learned", labels), ("frequencies", frequencies)):
        losses[f"loss {name}"] = -float(np.log(max(shares[label], 1e-12)))
        losses[f"brier {name}"] = float((shares**2).sum() - 2 * shares[label] + 1)
    best = int(np.argmax(labels))
    return _ForecastOutcome(losses, float(labels[best]), best == label, is_withheld)
