"""Finds episodes that are exceptions in the burst of another one. No I/O.

A burst weighs as one sample. If the tag of one of its events differs from that of the rest, as when
the tags of single events are wrong, it begins an episode of its own. Were it a sample, probabilities
would follow the number of episodes, and say of all events what holds for the exceptions.
"""

from collections import Counter, deque

import numpy as np

from archiver.times import Micros
from recall.learning.votes import score_by_attributes
from recall.similarity.measures import Corpus

# Events of one burst score at least this by `attributes`.
_SIMILARITY = 0.4
# An event is an exception if so many similar ones have another tag, and this share of all of them.
_MIN_EVENTS = 2
_MIN_SHARE = 0.7
_MAX_EVENTS = 50  # resolved ones that are compared: the newest


class Bursts:
    """The newest resolved events, by rows of a corpus."""

    def __init__(self, corpus: Corpus, gap: Micros) -> None:
        """`gap`: of episodes."""
        self._corpus = corpus
        self._gap = gap
        self._newest: deque[tuple[int, str]] = deque(maxlen=_MAX_EVENTS)

    def add(self, row: int, tag: str) -> None:
        """The tag of an event is known."""
        self._newest.append((row, tag))

    def is_exception(self, row: int, tag: str) -> bool:
        """Whether similar resolved events within the gap agree on another tag."""
        times = self._corpus.times
        recent = [item for item in self._newest if abs(times[item[0]] - times[row]) <= self._gap]
        rows = np.array([recent_row for recent_row, _ in recent])
        if sum(recent_tag != tag for _, recent_tag in recent) < _MIN_EVENTS:
            return False
        contexts = self._corpus.contexts
        past = contexts.oldest_rows(int(rows.max()) + 1).select_rows(rows)
        scores = score_by_attributes(contexts[row], self._corpus.counts(), past)
        similar = np.flatnonzero(scores >= _SIMILARITY).tolist()
        if len(similar) < _MIN_EVENTS:
            return False
        [(common_tag, count)] = Counter(recent[number][1] for number in similar).most_common(1)
        agrees = count >= max(_MIN_EVENTS, _MIN_SHARE * len(similar))
        return agrees and common_tag != tag
