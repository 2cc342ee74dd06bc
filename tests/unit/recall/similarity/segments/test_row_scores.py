"""Scores of single rows by all measures at once."""

import numpy as np

from recall.similarity.measures import MEASURES
from recall.similarity.measures.corpus import Corpus
from recall.similarity.segments.row_scores import score_by_measures


def test_scores_are_those_of_the_measures() -> None:
    rng = np.random.default_rng(1)
    corpus = Corpus()
    for ts in range(60):
        names = rng.choice(25, int(rng.integers(1, 8)), replace=False).tolist()
        term_counts = {f"{'abc'[name % 3]}={name}": int(rng.integers(1, 4)) for name in names}
        # A term that all contexts have weighs nothing, but it is shared.
        corpus.add(ts, {**term_counts, "a=all": 1})
    counts = corpus.counts()
    query = corpus.vocabulary.encode({"a=0": 2, "b=1": 1, "c=2": 1, "a=all": 1, "d=new": 1})
    rows = corpus.contexts.oldest_rows(60)
    scores = np.zeros((60, 3))
    score_by_measures(
        query.terms,
        query.counts,
        rows.starts,
        rows.terms,
        rows.counts,
        float(counts.event_count),
        counts.document_frequencies,
        counts.attributes,
        int(counts.attributes.max()) + 1,
        int(max(query.terms.max(), rows.terms.max())) + 1,
        scores,
    )
    for column, name in enumerate(("attributes", "tfidf", "binary")):
        expected = MEASURES[name].score_rows(query, rows, counts)
        assert np.allclose(scores[:, column], expected, rtol=0, atol=1e-9), name
        assert len(np.unique(expected)) > 10
