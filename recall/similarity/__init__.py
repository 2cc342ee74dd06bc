"""Similarity of contexts by TF-IDF cosine (Moirae, CIDR 2007, §3.5): arrays in, scores out.

Two folders have front doors of their own: `recall.similarity.measures` scores term vectors,
`recall.similarity.segments` holds and searches the events of an index.
"""

from recall.similarity.answer import DividedPieces, PartialAnswer, SimilarState, compare
from recall.similarity.comparison import EventForecast, EventScorer, ScoredRows
from recall.similarity.compilation import compiled
from recall.similarity.events import CorpusEvent, EventKey, count_terms, make_corpus_event
from recall.similarity.index import Index
from recall.similarity.ranking import TopK, explain_score
from recall.similarity.store import IndexStore
from recall.similarity.warm_up import compile_kernels

__all__ = [
    "CorpusEvent",
    "DividedPieces",
    "EventKey",
    "EventForecast",
    "EventScorer",
    "Index",
    "IndexStore",
    "PartialAnswer",
    "ScoredRows",
    "SimilarState",
    "TopK",
    "compare",
    "compile_kernels",
    "compiled",
    "count_terms",
    "explain_score",
    "make_corpus_event",
]
