"""Simple guesses at the past events most alike, beside which a measure has to prove itself."""

from zlib import crc32

import numpy as np

from recall.relevance.ready_contexts import CandidateSet, Ranker
from recall.similarity import Floats


def rank_by_recency(candidate_set: CandidateSet) -> Floats:
    """The candidates nearest in time."""
    times = np.array(
        candidate_set.history.corpus.times[: candidate_set.candidate_count], dtype=np.int64
    )
    nearness: Floats = 1 / (1 + np.abs(times - candidate_set.alert.ts))
    return nearness


def rank_by_location(candidate_set: CandidateSet) -> Floats:
    """The candidates of the same place, then the others; the nearest in time first."""
    here = [
        alert.location is not None and alert.location == candidate_set.alert.location
        for alert in candidate_set.candidates
    ]
    return rank_by_recency(candidate_set) + np.array(here, dtype=np.float64)


def rank_randomly(candidate_set: CandidateSet) -> Floats:
    """Any order, the same whenever it is asked for."""
    order = np.random.default_rng(crc32(candidate_set.alert.event_id.encode()))
    scores: Floats = order.random(candidate_set.candidate_count) + 1e-9
    return scores


BASELINES: dict[str, Ranker] = {
    "recency": rank_by_recency,
    "same place": rank_by_location,
    "chance": rank_randomly,
}
