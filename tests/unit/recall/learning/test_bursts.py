"""Exceptions in the burst of another episode."""

from recall.learning.bursts import Bursts
from recall.similarity.measures import Corpus
from tests.unit.recall.learning.events import HOUR


def make_bursts(times: list[int], tags: str) -> tuple[Bursts, int]:
    """Similar events at some times with tags, and the row of another one at hour 10."""
    corpus = Corpus()
    for number in range(20):
        corpus.add(-HOUR, {f"msg=other{number}": 1})
    bursts = Bursts(corpus, HOUR)
    for number, (ts, tag) in enumerate(zip(times, tags, strict=True)):
        corpus.add(ts, {"msg=disk": 1, "host=n1": 1, f"user=u{number}": 1})
        bursts.add(len(corpus) - 1, tag)
    corpus.add(10 * HOUR, {"msg=disk": 1, "host=n1": 1, "user=x": 1})
    return bursts, len(corpus) - 1


def test_event_whose_tag_differs_from_that_of_its_burst_is_an_exception() -> None:
    bursts, row = make_bursts([10 * HOUR] * 3, "aaa")
    assert bursts.is_exception(row, "b")
    assert not bursts.is_exception(row, "a")


def test_event_is_no_exception_unless_recent_similar_events_agree() -> None:
    for times, tags in (
        ([], ""),
        ([10 * HOUR], "a"),
        ([10 * HOUR] * 3, "acd"),
        ([8 * HOUR] * 3, "aaa"),
    ):
        bursts, row = make_bursts(times, tags)
        assert not bursts.is_exception(row, "b"), tags


def test_event_of_other_terms_belongs_to_another_burst() -> None:
    bursts, _ = make_bursts([-HOUR] * 3, "aaa")
    assert not any(bursts.is_exception(other, "b") for other in range(20))
