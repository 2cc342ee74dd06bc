"""Similarity of contexts by TF-IDF cosine (Moirae, CIDR 2007, §3.5): arrays in, scores out."""

from recall.similarity.answer import (
    SimilarState,
    compare,
    count_hopeful_pieces,
    pieces_without_matches,
)
from recall.similarity.calibration_model import Calibration, answer_features
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.corpus import ContextVector, Corpus, CorpusCounts, Floats, SparseRows
from recall.similarity.events import CorpusEvent, EventKey, count_terms, make_corpus_event
from recall.similarity.index import Index
from recall.similarity.measure import MEASURES, Measure, TfIdfMeasure
from recall.similarity.ranking import TopK
from recall.similarity.segment import Segment
from recall.similarity.store import IndexStore, remove_unused
from recall.similarity.warm_up import compile_kernels

__all__ = [
    "Calibration",
    "Comparison",
    "ContextVector",
    "Corpus",
    "CorpusCounts",
    "CorpusEvent",
    "EventKey",
    "Floats",
    "Index",
    "IndexStore",
    "MEASURES",
    "Measure",
    "Segment",
    "SimilarState",
    "SparseRows",
    "TfIdfMeasure",
    "TopK",
    "answer_features",
    "compare",
    "compile_kernels",
    "count_hopeful_pieces",
    "count_terms",
    "make_corpus_event",
    "pieces_without_matches",
    "remove_unused",
    "restore_top",
]
