"""Summaries of closed chunks: partial answers of recalls for all keys, before an event asks.

`SummaryBuilder` computes them beside the recalls, as tables of the archive; `SummaryStore` knows
which there are; `compute_partials` answers from them, and reads exactly what they do not hold.
`find_use` says which summary a recall needs, or why none can answer it.
"""

from recall.summaries.answers import SummarisedPartials, compute_partials
from recall.summaries.builder import SummaryBuilder, WantedShapes, open_summaries
from recall.summaries.model import SummaryShape, SummaryUse
from recall.summaries.shape import declared_shape, find_use
from recall.summaries.store import SummaryStore

__all__ = [
    "SummaryShape",
    "SummarisedPartials",
    "SummaryBuilder",
    "SummaryStore",
    "SummaryUse",
    "WantedShapes",
    "compute_partials",
    "declared_shape",
    "find_use",
    "open_summaries",
]
