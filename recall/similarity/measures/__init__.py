"""Contexts as term vectors, and the measures that score past ones. No I/O."""

from recall.similarity.measures.corpus import (
    ContextVector,
    ContextVectors,
    Corpus,
    CorpusCounts,
    Floats,
    Ids,
    SparseRows,
    Vocabulary,
)
from recall.similarity.measures.measure import (
    LEARNED_MEASURE,
    OWN_MEASURES,
    UNLEARNED_MEASURE,
    BinaryMeasure,
    Measure,
    TfIdfMeasure,
    round_scores,
    score_with_numbers,
)
from recall.similarity.measures.plugins import Measures, describe_packages

MEASURES = Measures(OWN_MEASURES, {LEARNED_MEASURE})
"""By name: all but `LEARNED_MEASURE`."""

__all__ = [
    "BinaryMeasure",
    "ContextVector",
    "ContextVectors",
    "Corpus",
    "CorpusCounts",
    "Floats",
    "Ids",
    "LEARNED_MEASURE",
    "MEASURES",
    "Measure",
    "SparseRows",
    "TfIdfMeasure",
    "UNLEARNED_MEASURE",
    "Vocabulary",
    "describe_packages",
    "round_scores",
    "score_with_numbers",
]
