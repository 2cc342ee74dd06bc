"""The corpus of one rule's version, chunk by chunk: contexts of past events, ready to be compared.

Each chunk has its own index (its events in (ts, id) order, their terms as sparse rows, how many events hold each
term), so that a piece of history is scored by itself and events that are added touch the index of their chunk only.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from recall.similarity.corpus import Context, Contexts, Counts, Floats, Rows, Vocabulary
from recall.similarity.measure import Measure
from recall.similarity.ranking import Hit, TopK

# How an event is named here: its time in microseconds, and its id, which orders events of one time.
Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Past:
    """An event of the corpus: its number tells when it came in, `facts` how often its context holds each term."""

    ts: int
    eid: str
    number: int
    facts: Mapping[str, int]

    @property
    def key(self) -> Key:
        return self.ts, self.eid


@dataclass
class _ChunkIndex:
    events: list[tuple[Key, int, Context]]

    @cached_property
    def keys(self) -> list[Key]:
        return [key for key, _, _ in self.events]

    @cached_property
    def numbers(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([number for _, number, _ in self.events], dtype=np.int64)

    @cached_property
    def rows(self) -> Rows:
        return Contexts(context for _, _, context in self.events).oldest(len(self.events))

    @cached_property
    def holding(self) -> Floats:
        return self.rows.holding(self.rows.width)

    def held(self, up_to: Key, number: int, width: int) -> tuple[int, Floats, int | None]:
        """E, C_k and the newest time, of events up to a key and a number."""
        if self.keys[-1] <= up_to and int(self.numbers.max()) <= number:
            return len(self.keys), _wide(self.holding, width), self.keys[-1][0]
        counted = self.numbers <= number
        counted[bisect_left(self.keys, (up_to[0], up_to[1] + "\0")) :] = False
        found = np.flatnonzero(counted)
        newest = self.keys[int(found[-1])][0] if len(found) else None
        return len(found), self.rows.holding(width, counted), newest


@dataclass
class Index:
    """The corpus of one version of a rule, by some of its contexts. `chunks` by id, oldest first."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    number: int = 0
    """The last event that came in."""
    _chunks: dict[int, _ChunkIndex] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(chunk.events) for chunk in self._chunks.values())

    def add(self, chunk: int, events: Iterable[Past]) -> None:
        """Events that came into the corpus, of one chunk, in any order."""
        new = [(past.key, past.number, self.vocabulary.context(past.facts)) for past in events]
        if not new:
            return
        known = self._chunks[chunk].events if chunk in self._chunks else []
        self._chunks[chunk] = _ChunkIndex(sorted([*known, *new], key=lambda one: one[0]))
        self.number = max(self.number, max(number for _, number, _ in new))

    def counts(self, event: Past) -> Counts:
        """E and C_k up to and including an event, of what came in up to `event.number`.

        The event itself counts once, whether or not it is in the corpus yet.
        """
        query = self.vocabulary.context(event.facts)
        width = len(self.vocabulary)
        events, holding, newest = 0, np.zeros(width), None
        for chunk in self._chunks.values():
            if chunk.keys[0] <= event.key:
                more, theirs, last = chunk.held(event.key, event.number, width)
                events, holding = events + more, holding + theirs
                newest = last if newest is None else newest if last is None else max(last, newest)
        if not self._holds(event):
            events += 1
            holding[query.terms] += 1
            newest = event.ts
        return Counts(events, holding, newest, self.vocabulary.attributes)

    def _holds(self, event: Past) -> bool:
        for chunk in self._chunks.values():
            place = bisect_left(chunk.keys, event.key)
            if place < len(chunk.keys) and chunk.keys[place] == event.key:
                return int(chunk.numbers[place]) <= event.number
        return False

    def score(
        self, event: Past, counts: Counts, measure: Measure, low: int | None, high: int, top: TopK[Key]
    ) -> tuple[int, bool]:
        """Compare an event with past ones whose time is in [low, high), microseconds; the best go into `top`.

        Returns how many were compared, and whether the best have changed. Events that came in after `event.number`
        are left out, so that an answer can be repeated.
        """
        query = self.vocabulary.context(event.facts)
        compared, changed = 0, False
        for chunk in self._chunks.values():
            first = 0 if low is None else bisect_left(chunk.keys, (low, ""))
            last = bisect_left(chunk.keys, (high, ""))
            if first < last:
                scores = measure.scores(query, chunk.rows.part(first, last), counts)
                scores[chunk.numbers[first:last] > event.number] = 0
                changed = top.add(chunk.keys[first:last], scores) or changed
                compared += last - first
        return compared, changed

    def context(self, key: Key) -> Context:
        """The context of an event of the corpus."""
        for chunk in self._chunks.values():
            place = bisect_left(chunk.keys, key)
            if place < len(chunk.keys) and chunk.keys[place] == key:
                return chunk.events[place][2]
        raise KeyError(key)


def restored(k: int, hits: Sequence[tuple[int, str, float]]) -> TopK[Key]:
    """The best so far, as they were kept."""
    top: TopK[Key] = TopK(k)
    top.hits = [Hit((ts, eid), score) for ts, eid, score in hits]
    return top


def facts(contexts: Mapping[str, Sequence[Mapping[str, str | None]]], names: Iterable[str]) -> dict[str, int]:
    """The terms `attribute=value` of some of an event's contexts, with how often each occurs. NULL gives no term."""
    found: dict[str, int] = {}
    for name in names:
        for row in contexts.get(name, ()):
            for attribute, value in row.items():
                if value is not None:
                    term = f"{attribute}={value}"
                    found[term] = found.get(term, 0) + 1
    return found


def _wide(counts: Floats, width: int) -> Floats:
    return counts if len(counts) == width else np.concatenate([counts, np.zeros(width - len(counts))])
