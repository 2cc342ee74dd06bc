"""The identity of a corpus."""

from recall.corpora import build_corpus_key
from recall.requests import SimilarQuestion


def question(measure: str) -> SimilarQuestion:
    numeric = {"v": 0.5, "a": None}
    return SimilarQuestion(None, 1.0, "newest", ("near",), 3, measure, 0, numeric)


def test_numeric_columns_are_part_of_the_key_of_weighted_measures_only() -> None:
    assert build_corpus_key("r", "1", question("tfidf")).numeric == (("a", None), ("v", 0.5))
    assert build_corpus_key("r", "1", question("binary")).numeric == ()
