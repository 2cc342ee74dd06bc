"""Lessons wait for the end of their bursts, and count by the share of their tag."""

import pytest

from recall.learning.bursts import Bursts
from recall.similarity.measures import Corpus
from tests.unit.recall.learning.events import HOUR


def make_bursts(times: list[int], tags: str) -> tuple[Bursts[str], int]:
    """Similar events at some times with tags, and the row of another one at hour 10."""
    corpus = Corpus()
    for number in range(20):
        corpus.add(-HOUR, {f"msg=other{number}": 1})
    bursts: Bursts[str] = Bursts(corpus, HOUR)
    for number, (ts, tag) in enumerate(zip(times, tags, strict=True)):
        corpus.add(ts, {"msg=disk": 1, "host=n1": 1, f"user=u{number}": 1})
        bursts.add(len(corpus) - 1, tag)
    corpus.add(10 * HOUR, {"msg=disk": 1, "host=n1": 1, "user=x": 1})
    return bursts, len(corpus) - 1


def wait(bursts: Bursts[str], row: int, tag: str) -> None:
    """The tag of an event is known: its lesson waits."""
    bursts.add(row, tag)
    bursts.wait(row, tag, "lesson")


@pytest.mark.parametrize(
    ("times", "tags", "share"),
    [
        ([], "", 1.0),
        ([10 * HOUR], "a", 0.5),
        ([10 * HOUR] * 3, "aaa", 0.25),
        ([10 * HOUR] * 3, "abb", 0.75),
        ([8 * HOUR] * 3, "aaa", 1.0),
    ],
)
def test_lesson_counts_by_the_share_of_similar_events_of_the_burst_with_its_tag(
    times: list[int], tags: str, share: float
) -> None:
    bursts, row = make_bursts(times, tags)
    wait(bursts, row, "b")
    assert bursts.take_all() == [("lesson", share)]


def test_lesson_waits_for_the_end_of_the_burst() -> None:
    bursts, row = make_bursts([], "")
    wait(bursts, row, "b")
    assert bursts.take_complete(11 * HOUR) == []
    assert bursts.take_complete(11 * HOUR + 1) == [("lesson", 1.0)]
    assert bursts.take_all() == []


def test_events_of_other_terms_belong_to_another_burst() -> None:
    bursts, _ = make_bursts([-HOUR] * 3, "aaa")
    wait(bursts, 0, "b")
    assert bursts.take_all() == [("lesson", 1.0)]
