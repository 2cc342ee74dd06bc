"""Similarity of contexts by TF-IDF cosine (Moirae, CIDR 2007, §3.5): arrays in, scores out."""

from recall.similarity.answer import (
    SimilarState,
    compare,
)
from recall.similarity.comparison import EventScorer, ScoredRows
from recall.similarity.compilation import compiled
from recall.similarity.corpus import (
    ContextVector,
    Corpus,
    CorpusCounts,
    Floats,
    Ids,
    SparseRows,
    Vocabulary,
)
from recall.similarity.events import CorpusEvent, EventKey, count_terms, make_corpus_event
from recall.similarity.index import Index
from recall.similarity.measure import (
    LEARNED_MEASURE,
    MEASURE_NAMES,
    MEASURES,
    UNLEARNED_MEASURE,
    Measure,
    TfIdfMeasure,
)
from recall.similarity.ranking import TopK
from recall.similarity.row_scores import score_by_measures
from recall.similarity.segment import RowsOfSegment, Segment, gather_rows
from recall.similarity.store import IndexStore
from recall.similarity.warm_up import compile_kernels

__all__ = [
    "ContextVector",
    "Corpus",
    "CorpusCounts",
    "CorpusEvent",
    "EventKey",
    "EventScorer",
    "Floats",
    "Ids",
    "Index",
    "IndexStore",
    "LEARNED_MEASURE",
    "MEASURES",
    "MEASURE_NAMES",
    "Measure",
    "RowsOfSegment",
    "ScoredRows",
    "Segment",
    "SimilarState",
    "SparseRows",
    "TfIdfMeasure",
    "TopK",
    "UNLEARNED_MEASURE",
    "Vocabulary",
    "compare",
    "compile_kernels",
    "compiled",
    "gather_rows",
    "score_by_measures",
    "count_terms",
    "make_corpus_event",
]
