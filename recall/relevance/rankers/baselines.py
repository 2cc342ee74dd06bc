"""Simple rankers with which measures are compared. No I/O."""

from zlib import crc32

import numpy as np

from recall.relevance.rankers.ready_contexts import CandidateSet, Floats, Ranker


def rank_by_recency(candidate_set: CandidateSet) -> Floats:
    """Score the candidates nearest in time highest."""
    times = candidate_set.history.corpus.times[: candidate_set.candidate_count]
    distances = np.abs(np.array(times, dtype=np.int64) - candidate_set.alert.ts)
    scores: Floats = 1 / (1 + distances)
    return scores


def rank_by_location(candidate_set: CandidateSet) -> Floats:
    """Score the candidates of the same location highest; within both parts, the most recent."""
    scores = rank_by_recency(candidate_set)
    location = candidate_set.alert.location
    if location is None:
        return scores
    same_location = [alert.location == location for alert in candidate_set.candidates]
    return scores + np.array(same_location, dtype=np.float64)


def rank_randomly(candidate_set: CandidateSet) -> Floats:
    """Score the candidates at random, with a seed that depends on the alert's ID alone."""
    generator = np.random.default_rng(crc32(candidate_set.alert.event_id.encode()))
    scores: Floats = generator.random(candidate_set.candidate_count) + 1e-9
    return scores


# By the names under which results are reported.
BASELINES: dict[str, Ranker] = {
    "recency": rank_by_recency,
    "same place": rank_by_location,
    "chance": rank_randomly,
}
