"""Compiles the search: once per installation by `make setup`, else when a recall process starts."""

import numpy as np

from archiver.time_range import TimeRange
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES
from recall.similarity.segments import KnownRows, RowsOfSegment, SearchBuffers, gather_rows


def compile_kernels() -> None:
    """Search small corpora that reach every compiled function with all types of arrays.

    These are counts of both sizes (8 bits and floating point), numeric values, and bounds that are
    built, then updated.
    """
    for count in (1, 300):
        for numeric in ({}, {"n": None}):
            index = Index(numeric)
            first = CorpusEvent(1, "a", 1, {"x": 1, "y": count}, {0: [1.0]})
            second = CorpusEvent(2, "b", 2, {"y": 1}, {0: [2.0]})
            index.add(0, [first, second])
            event = CorpusEvent(9, "q", 2, {"x": 1, "z": 1}, {0: [1.5]})
            comparison = Comparison(
                event=event,
                pinned_counts=index.pin_counts(event),
                measure=MEASURES["tfidf"],
                top=restore_top(1, []),
                before_ts=9,
                max_sequence=2,
            )
            for sequence in (3, 4):
                index.score_bounds(comparison, [TimeRange(None, 9)])
                index.score([comparison], [TimeRange(None, 9)])
                gather_rows([RowsOfSegment(index.segments[0], np.zeros(1, dtype=np.int64))])
                if not numeric:
                    index.segments[0].search_bounds(
                        comparison.pinned_counts.weighted_query(index.vocabulary.encode({"x": 1})),
                        KnownRows(np.zeros(1, dtype=np.int64), np.zeros(1)),
                        max_sequence=2,
                        rows=(0, 1),
                        max_counts=(1, 1),
                        least=(0.0, 0.0),
                        buffers=SearchBuffers(),
                    )
                index.add(1, [CorpusEvent(3, "c", sequence, {"x": 1}, {0: [3.0]})])
