"""Evaluation of forecasts: how well the probabilities of tags hold on later events. No I/O.

An event whose tag was never seen before counts as "none of these". The expected calibration error
is that of Naeini et al. (AAAI 2015) for the most probable label, with bins of equal size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from recall.relevance.rankers import (
    AlertContext,
    CandidateSet,
    Floats,
    LearnedRanker,
    iter_candidate_sets,
    rank_by,
)
from recall.similarity.measures import MEASURES

_BINS = 15
# Forecasts are evaluated once this many tags are known.
_FIRST_RESOLUTIONS = 500
_MIN_QUERIES = 2 * _BINS
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
    by `tfidf`.
    """

    queries: int
    calibration_error: float
    accuracy: float
    log_loss: float
    frequency_log_loss: float
    vote_log_loss: float
    bins: list[ForecastBin]


@dataclass
class _Outcomes:
    """By query: the probability of the most probable label, whether it was right, and the
    probabilities that the label that was right had."""

    predicted: list[float]
    correct: list[bool]
    label: list[float]
    frequency: list[float]
    vote: list[float]


def measure_forecasts(
    alerts: Sequence[AlertContext], ranker: LearnedRanker, known_tags: Iterable[str]
) -> ForecastReliability | None:
    """Test the forecasts of all alerts of known tag, in time order; None: there are too few.

    `ranker`: without queries so far. `known_tags`: the IDs of the alerts whose tag becomes known.
    """
    outcomes = _Outcomes([], [], [], [], [])
    for candidate_set in iter_candidate_sets(alerts, ranker.gap, event_ids=set(known_tags)):
        if ranker.resolution_count(candidate_set) >= _FIRST_RESOLUTIONS:
            _add_outcome(outcomes, candidate_set, ranker)
    if len(outcomes.predicted) < _MIN_QUERIES:
        return None
    predicted, correct = np.array(outcomes.predicted), np.array(outcomes.correct, dtype=float)
    bins = _equal_bins(predicted, correct)
    error = 0.0
    for part in bins:
        error += part.queries * abs(part.mean_predicted - part.observed_share) / len(predicted)
    return ForecastReliability(
        queries=len(predicted),
        calibration_error=float(error),
        accuracy=float(correct.mean()),
        log_loss=_log_loss(outcomes.label),
        frequency_log_loss=_log_loss(outcomes.frequency),
        vote_log_loss=_log_loss(outcomes.vote),
        bins=bins,
    )


def _add_outcome(outcomes: _Outcomes, candidate_set: CandidateSet, ranker: LearnedRanker) -> None:
    model = ranker.model(candidate_set)
    probabilities, new_tag = ranker.tag_probabilities(candidate_set)
    tag = ranker.find_tag(candidate_set)
    all_labels = np.append(probabilities, new_tag)
    best = int(np.argmax(all_labels))
    label = _NONE_OF_THESE if tag is None else tag
    outcomes.predicted.append(float(all_labels[best]))
    outcomes.correct.append(best == (len(probabilities) if tag is None else tag))
    outcomes.label.append(float(all_labels[label]))
    counts = model.tag_model.tag_counts
    frequencies = np.append(counts, 1.0) / (counts.sum() + 1)
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
    for rows in np.array_split(np.argsort(predicted, kind="stable"), _BINS):
        bins.append(
            ForecastBin(len(rows), float(predicted[rows].mean()), float(correct[rows].mean()))
        )
    return bins


def _log_loss(probabilities: Sequence[float]) -> float:
    return float(-np.log(np.maximum(probabilities, 1e-12)).mean())
