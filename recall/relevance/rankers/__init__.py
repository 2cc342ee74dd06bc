"""Rankers of past alerts with ready contexts: measures, the learned measure, simple baselines.

No I/O.
"""

from recall.relevance.rankers.baselines import BASELINES
from recall.relevance.rankers.described import DescribedHit, rank_described
from recall.relevance.rankers.learned_ranker import (
    FrequencyRanker,
    LearnedRanker,
    make_learned_ranker,
)
from recall.relevance.rankers.ready_contexts import (
    AlertContext,
    CandidateSet,
    Floats,
    Ranker,
    SimilarAlerts,
    find_similar,
    iter_candidate_sets,
    rank_by,
)

__all__ = [
    "AlertContext",
    "BASELINES",
    "CandidateSet",
    "DescribedHit",
    "Floats",
    "FrequencyRanker",
    "LearnedRanker",
    "Ranker",
    "SimilarAlerts",
    "find_similar",
    "iter_candidate_sets",
    "make_learned_ranker",
    "rank_by",
    "rank_described",
]
