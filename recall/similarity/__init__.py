"""Similarity of contexts by TF-IDF cosine (Moirae, CIDR 2007, §3.5): arrays in, scores out."""

from recall.similarity.answer import (
    SimilarState,
    compare,
)
from recall.similarity.corpus import ContextVector, Corpus, CorpusCounts, SparseRows
from recall.similarity.events import CorpusEvent, EventKey, count_terms, make_corpus_event
from recall.similarity.index import Index
from recall.similarity.measure import MEASURES, Measure, TfIdfMeasure
from recall.similarity.ranking import TopK
from recall.similarity.store import IndexStore
from recall.similarity.warm_up import compile_kernels

__all__ = [
    "ContextVector",
    "Corpus",
    "CorpusCounts",
    "CorpusEvent",
    "EventKey",
    "Index",
    "IndexStore",
    "MEASURES",
    "Measure",
    "SimilarState",
    "SparseRows",
    "TfIdfMeasure",
    "TopK",
    "compare",
    "compile_kernels",
    "count_terms",
    "make_corpus_event",
]
