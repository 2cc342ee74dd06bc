"""Evaluation of forecasts: how well the probabilities of tags hold on later events. No I/O.

An event whose tag was never seen before counts as "none of these". The expected calibration error
is that of Naeini et al. (AAAI 2015) for the most probable label, with bins of equal size. A perfect
model has one too, as its predictions are finitely many: it is simulated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recall.learning import MIN_EPISODES
from recall.relevance.quality import MetricEstimate, bootstrap_intervals
from recall.relevance.rankers import (
    AlertContext,
    CandidateSet,
    Floats,
    LearnedRanker,
    iter_candidate_sets,
    rank_by,
)
from recall.similarity.measures import MEASURES

_MAX_BINS = 15
_MIN_BIN_QUERIES = 10
# Forecasts are evaluated once this many tags are known.
FIRST_RESOLUTIONS = 10
MIN_QUERIES = 15
"""Forecasts of fewer events are not evaluated."""
_SIMULATIONS = 200
_MIN_PROBABILITY = 1e-12  # in log losses
_VOTERS = 10
# How much the votes of the most similar events are pulled towards the past frequencies.
_VOTE_SMOOTHING = 1.0  # votes
# Label of an event whose tag was never seen before.
_NONE_OF_THESE = -1


@dataclass(frozen=True)
class ForecastBin:
    """Queries of similar probability of the most probable label."""

    queries: int
    mean_predicted: float
    observed_share: float
    """The share of the queries that had that label."""


@dataclass(frozen=True)
class ForecastReliability:
    """How forecasts held.

    The log losses (nats) are the mean of -log of the probability of the label that was right: of
    the forecasts, of the past frequencies of tags, and of the vote of the ten most similar events
    by `tfidf`. `excess_log_loss`: of the forecasts, compared with the frequencies.
    `perfect_calibration_error`: what a perfect model of as many queries and episodes would show.
    `withheld_share`: of the queries, those with too few episodes of known tag to say:
    they count as the frequencies' prediction.
    """

    queries: int
    episodes: int
    calibration_error: float
    perfect_calibration_error: float
    accuracy: float
    log_loss: float
    frequency_log_loss: float
    vote_log_loss: float
    excess_log_loss: MetricEstimate
    bins: list[ForecastBin]
    withheld_share: float


@dataclass
class _Outcomes:
    """By query: the probability of the most probable label, whether it was right, and the
    probabilities that the label that was right had."""

    predicted: list[float]
    correct: list[bool]
    label: list[float]
    frequency: list[float]
    vote: list[float]
    episode: list[int]
    withheld: list[bool]


def measure_forecasts(
    alerts: Sequence[AlertContext],
    ranker: LearnedRanker,
    known_tags: Iterable[str],
    episodes: Mapping[str, int],
) -> ForecastReliability | None:
    """Test the forecasts of all alerts of known tag, in time order; None: there are too few.

    `ranker`: without queries so far. `known_tags`: the IDs of the alerts whose tag becomes known.
    `episodes`: by event ID.
    """
    outcomes = _Outcomes([], [], [], [], [], [], [])
    for candidate_set in iter_candidate_sets(alerts, ranker.gap, event_ids=set(known_tags)):
        if ranker.resolution_count(candidate_set) >= FIRST_RESOLUTIONS:
            _add_outcome(outcomes, candidate_set, ranker)
            outcomes.episode.append(episodes[candidate_set.alert.event_id])
    if len(outcomes.predicted) < MIN_QUERIES:
        return None
    predicted, correct = np.array(outcomes.predicted), np.array(outcomes.correct, dtype=float)
    groups = np.unique(outcomes.episode, return_inverse=True)[1]
    excess = np.log(np.maximum(outcomes.frequency, _MIN_PROBABILITY)) - np.log(
        np.maximum(outcomes.label, _MIN_PROBABILITY)
    )
    bins = _equal_bins(predicted, correct)
    return ForecastReliability(
        queries=len(predicted),
        episodes=int(groups.max()) + 1,
        calibration_error=_error_of_bins(bins),
        perfect_calibration_error=perfect_calibration_error(predicted, groups),
        accuracy=float(correct.mean()),
        log_loss=_log_loss(outcomes.label),
        frequency_log_loss=_log_loss(outcomes.frequency),
        vote_log_loss=_log_loss(outcomes.vote),
        excess_log_loss=bootstrap_intervals(excess[:, None], groups)[0],
        bins=bins,
        withheld_share=float(np.mean(outcomes.withheld)),
    )


def calibration_error(predicted: Floats, correct: Floats) -> float:
    """The expected calibration error. `correct`: 1 if the most probable label was right, else 0."""
    return _error_of_bins(_equal_bins(predicted, correct))


def _error_of_bins(bins: Sequence[ForecastBin]) -> float:
    error = 0.0
    for part in bins:
        error += part.queries * abs(part.mean_predicted - part.observed_share)
    return error / sum(part.queries for part in bins)


def perfect_calibration_error(predicted: Floats, groups: npt.NDArray[np.intp]) -> float:
    """The mean calibration error if each prediction is right as often as it says, and those of one
    episode are right or wrong together.

    `groups`: the number of each prediction's episode.
    """
    draws = np.random.default_rng(0).random((_SIMULATIONS, int(groups.max()) + 1))
    errors = []
    for draw in draws:
        correct = (draw[groups] < predicted).astype(float)
        errors.append(calibration_error(predicted, correct))
    return float(np.mean(errors))


def _add_outcome(outcomes: _Outcomes, candidate_set: CandidateSet, ranker: LearnedRanker) -> None:
    model = ranker.model(candidate_set)
    probabilities, new_tag = ranker.tag_probabilities(candidate_set)
    tag = ranker.find_tag(candidate_set)
    frequencies = model.frequencies()
    all_labels = np.append(probabilities, new_tag)
    is_withheld = model.history.episode_count < MIN_EPISODES
    if is_withheld:
        all_labels = frequencies
    outcomes.withheld.append(is_withheld)
    best = int(np.argmax(all_labels))
    label = _NONE_OF_THESE if tag is None else tag
    outcomes.predicted.append(float(all_labels[best]))
    outcomes.correct.append(best == (len(probabilities) if tag is None else tag))
    outcomes.label.append(float(all_labels[label]))
    outcomes.frequency.append(float(frequencies[label]))
    votes = _VOTE_SMOOTHING * frequencies
    for row in _most_similar_rows(candidate_set):
        voted = ranker.row_tag(candidate_set, row)
        if voted is not None:
            votes[voted] += 1
    outcomes.vote.append(float(votes[label] / votes.sum()))


def _most_similar_rows(candidate_set: CandidateSet) -> list[int]:
    if not candidate_set.candidate_count:
        return []
    scores = rank_by(MEASURES["tfidf"])(candidate_set)
    scores[candidate_set.excluded_rows] = 0
    rows: list[int] = np.argsort(-scores, kind="stable")[:_VOTERS].tolist()
    return [row for row in rows if scores[row] > 0]


def _equal_bins(predicted: Floats, correct: Floats) -> list[ForecastBin]:
    """Bins of equal size, by rising probability."""
    bins = []
    count = min(len(predicted) // _MIN_BIN_QUERIES, _MAX_BINS)
    for rows in np.array_split(np.argsort(predicted, kind="stable"), max(count, 1)):
        bins.append(
            ForecastBin(len(rows), float(predicted[rows].mean()), float(correct[rows].mean()))
        )
    return bins


def _log_loss(probabilities: Sequence[float]) -> float:
    return float(-np.log(np.maximum(probabilities, _MIN_PROBABILITY)).mean())
