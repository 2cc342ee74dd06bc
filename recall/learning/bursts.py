"""Holds lessons back until their bursts are complete, and says how much each counts. No I/O.

A burst weighs as one sample. If the tag of one of its events differs from that of the rest, as when
the tags of single events are wrong, it begins an episode of its own. Were it a sample of weight 1,
probabilities would follow the number of episodes, and say of all events what holds for the
exceptions. So each tag counts by its share of the burst, which is not known before it is over.
"""

from collections import deque
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from archiver.times import Micros
from recall.learning.votes import score_by_attributes
from recall.similarity.measures import Corpus

# Events of one burst score at least this by `attributes`.
_SIMILARITY = 0.5
_MAX_EVENTS = 200  # resolved ones that are compared: the newest

Lesson = TypeVar("Lesson")


class _Waiting(NamedTuple, Generic[Lesson]):
    """What can be learned from the first event of an episode: its row and its tag."""

    row: int
    tag: str
    lesson: Lesson


class Bursts(Generic[Lesson]):
    """The newest resolved events, by rows of a corpus, and the lessons that wait."""

    def __init__(self, corpus: Corpus, gap: Micros) -> None:
        """`gap`: of episodes."""
        self._corpus = corpus
        self._gap = gap
        self._newest: deque[tuple[int, str]] = deque(maxlen=_MAX_EVENTS)
        self._waiting: deque[_Waiting[Lesson]] = deque()

    def add(self, row: int, tag: str) -> None:
        """The tag of an event is known."""
        self._newest.append((row, tag))

    def wait(self, row: int, tag: str, lesson: Lesson) -> None:
        """An episode begins with an event that was added."""
        self._waiting.append(_Waiting(row, tag, lesson))

    def take_complete(self, ts: Micros) -> list[tuple[Lesson, float]]:
        """The lessons of the bursts that are over when the tags of events up to `ts` are known, and
        how much each counts.
        """
        count = 0
        for waiting in self._waiting:
            if ts <= self._corpus.times[waiting.row] + self._gap:
                break
            count += 1
        return self._take(count)

    def take_all(self) -> list[tuple[Lesson, float]]:
        """The same of all lessons that wait, by what is known of their bursts."""
        return self._take(len(self._waiting))

    def _take(self, count: int) -> list[tuple[Lesson, float]]:
        lessons = []
        for _ in range(count):
            row, tag, lesson = self._waiting.popleft()
            lessons.append((lesson, self._share(row, tag)))
        return lessons

    def _share(self, row: int, tag: str) -> float:
        """The share of the burst's events that have the tag."""
        times = self._corpus.times
        rows, same_count = [], 0
        for other_row, other_tag in self._newest:
            if abs(times[other_row] - times[row]) <= self._gap:
                if other_tag == tag:
                    same_count += 1
                else:
                    rows.append(other_row)
        if not rows:
            return 1.0
        contexts = self._corpus.contexts
        other_contexts = contexts.oldest_rows(max(rows) + 1).select_rows(np.array(rows))
        scores = score_by_attributes(contexts[row], self._corpus.counts(), other_contexts)
        other_count = int(np.count_nonzero(scores >= _SIMILARITY))
        return same_count / (same_count + other_count)
