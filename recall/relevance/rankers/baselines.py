"""Simple rankers with which measures are compared. No I/O."""

from zlib import crc32

import numpy as np

from recall.relevance.rankers.ready_contexts import CandidateSet, Floats, Ranker

# The usual parameters of BM25: saturation of term counts, and normalisation by length.
_BM25_K1 = 1.2
_BM25_B = 0.75


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


def rank_by_bm25(candidate_set: CandidateSet) -> Floats:
    """Score the candidates by Okapi BM25 (Robertson, Zaragoza, FnTIR 2009); the length of a context
    is the number of its terms, with repetitions.
    """
    past, counts = candidate_set.contexts, candidate_set.counts
    query_terms = candidate_set.context.terms
    frequencies = np.zeros(max(past.width, int(query_terms.max(initial=-1)) + 1))
    known_frequencies = counts.document_frequencies[: len(frequencies)]
    frequencies[: len(known_frequencies)] = known_frequencies
    weights = np.zeros(len(frequencies))
    other_events = np.maximum(counts.event_count - frequencies[query_terms], 0)
    weights[query_terms] = np.log1p((other_events + 0.5) / (frequencies[query_terms] + 0.5))
    rows = np.repeat(np.arange(len(past)), np.diff(past.starts))
    lengths: Floats = np.bincount(rows, past.counts, len(past)).astype(np.float64)
    norms = 1 - _BM25_B + _BM25_B * lengths / max(lengths.mean(), 1.0)
    saturated = past.counts * (_BM25_K1 + 1) / (past.counts + _BM25_K1 * norms[rows])
    scores: Floats = np.bincount(rows, saturated * weights[past.terms], len(past)).astype(
        np.float64
    )
    return scores


# By the names under which results are reported.
BASELINES: dict[str, Ranker] = {
    "bm25": rank_by_bm25,
    "recency": rank_by_recency,
    "same place": rank_by_location,
    "chance": rank_randomly,
}
