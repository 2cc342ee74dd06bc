"""Compiles what the search needs, once for an installation (`python -m recall.similarity.warm_up`)."""

from recall.similarity.index import Comparison, CorpusEvent, Index, restore_top
from recall.similarity.measure import MEASURES


def compile_kernels() -> None:
    """Search a corpus of two, with everything that is compiled: counts of both sizes, numbers, changing bounds."""
    for count in (1, 300):
        for numeric in ({}, {"n": None}):
            index = Index(numeric)
            index.add(
                0,
                [
                    CorpusEvent(1, "a", 1, {"x": 1, "y": count}, {0: [1.0]}),
                    CorpusEvent(2, "b", 2, {"y": 1}, {0: [2.0]}),
                ],
            )
            event = CorpusEvent(9, "q", 2, {"x": 1, "z": 1}, {0: [1.5]})
            one = Comparison(
                event, index.pin_counts(event), MEASURES["tfidf"], restore_top(1, []), 9, 2
            )
            for number in (2, 3):
                index.score_bounds(one, [(None, 9)])
                index.score([one], [(None, 9)])
                index.add(1, [CorpusEvent(3, "c", number + 1, {"x": 1}, {0: [3.0]})])


if __name__ == "__main__":
    compile_kernels()
