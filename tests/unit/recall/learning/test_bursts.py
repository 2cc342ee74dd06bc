"""Lessons wait for the end of their bursts; those of exceptions are left out."""

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


@pytest.mark.parametrize(("tag", "lessons"), [("a", ["lesson"]), ("b", [])])
def test_lesson_of_a_tag_that_most_of_the_burst_does_not_have_is_left_out(
    tag: str, lessons: list[str]
) -> None:
    bursts, row = make_bursts([10 * HOUR] * 3, "aaa")
    wait(bursts, row, tag)
    assert bursts.take_all() == lessons


@pytest.mark.parametrize(
    ("times", "tags"),
    [([], ""), ([10 * HOUR], "a"), ([10 * HOUR] * 3, "abb"), ([8 * HOUR] * 3, "aaa")],
)
def test_lesson_stays_unless_similar_events_of_the_burst_have_other_tags(
    times: list[int], tags: str
) -> None:
    bursts, row = make_bursts(times, tags)
    wait(bursts, row, "b")
    assert bursts.take_all() == ["lesson"]


def test_lesson_waits_for_the_end_of_the_burst() -> None:
    bursts, row = make_bursts([], "")
    wait(bursts, row, "b")
    assert bursts.take_complete(11 * HOUR) == []
    assert bursts.take_complete(11 * HOUR + 1) == ["lesson"]
    assert bursts.take_all() == []


def test_events_of_other_terms_belong_to_another_burst() -> None:
    bursts, _ = make_bursts([-HOUR] * 3, "aaa")
    wait(bursts, 0, "b")
    assert bursts.take_all() == ["lesson"]
