"""E and C_k by episode."""

from recall.learning.episode_corpus import EpisodeCorpus


def test_equal_events_of_an_episode_count_once() -> None:
    corpus = EpisodeCorpus(gap=100)
    for ts in (0, 50, 100, 101, 102):
        context = corpus.add(ts, {"a=1": 1})
    corpus.add(103, {"a=1": 1, "b=2": 1})
    counts = corpus.counts()
    assert len(corpus) == 6
    assert counts.event_count == 3
    assert counts.document_frequencies[context.terms].tolist() == [3]
