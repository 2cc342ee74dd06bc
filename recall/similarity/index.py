"""The corpus of one rule's version, chunk by chunk: contexts of past events, ready to be compared.

Each chunk is some segments; events that come in make a new one, and small ones are merged as in a log-structured tree
(O'Neil et al. 1996), so that an event costs a logarithmic number of copies. E and C_k are kept for all of the corpus.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recall.similarity import kernel
from recall.similarity.corpus import Context, Counts, Floats, Rows, Vocabulary
from recall.similarity.journal import Journal
from recall.similarity.measure import Binary, Measure, TfIdf, with_numbers
from recall.similarity.numeric import NOTHING, Scales, Values, flat, products, scales, squares
from recall.similarity.ranking import Hit, TopK, best
from recall.similarity.segment import ROWS, Key, Past, Pinned, Query, Room, Segment

__all__ = ["Comparison", "Index", "Key", "Past", "Pinned", "Span", "facts", "past", "restored"]

_NONE = np.empty(0, dtype=np.int32)

# Rows of an event's contexts, by name: columns and their values as texts.
Contexts = Mapping[str, Sequence[Mapping[str, str | None]]]
# From a time (None: the first) to before another, microseconds.
Span = tuple[int | None, int]
Places = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass
class Comparison:
    """One event that is compared, with the counts of its question; the best so far go into `top`."""

    event: Past
    pinned: Pinned
    measure: Measure
    top: TopK[Key]
    newest: int
    """Past events are older than this, microseconds."""
    seen: int
    """Past events are those that came in up to this number."""
    counts: Counts | None = None
    """What is pinned for every term, once it was needed."""
    scales: Scales | None = None
    """What is pinned for numeric attributes, once it was needed."""


class Index:
    """The corpus of one version of a rule, by some of its contexts. `numeric`: attributes compared as numbers, with
    their bandwidths, None for that of Silverman's rule."""

    def __init__(self, numeric: Mapping[str, float | None] | None = None) -> None:
        self.numeric = dict(sorted((numeric or {}).items()))
        self.vocabulary = Vocabulary()
        self.number = 0
        """The last event that came in."""
        self.segments: list[Segment] = []
        self._events = 0
        self._newest: int | None = None
        self._held = np.zeros(0)
        self._shared = False
        self._journal = Journal()
        self._room = Room()

    def __len__(self) -> int:
        return self._events

    # What comes in

    def add(self, chunk: int, events: Iterable[Past]) -> None:
        """Events that came into the corpus, of one chunk, in any order."""
        new = sorted(events, key=lambda past: past.key)
        for first in range(0, len(new), ROWS):
            self.put(Segment.of(chunk, new[first : first + ROWS], self.vocabulary))

    def put(self, segment: Segment) -> None:
        """A segment of new events, whose terms are numbered by this index's vocabulary."""
        self._own_counts()
        self._held[segment.known] += segment.holding()
        if self._journal.full:
            for known in self.segments:
                self._heed(known, self._level)
                known.heeded = 0
            self._journal.clear()
        self._journal.note(segment.known)
        self._events += len(segment)
        newest = int(segment.arrays["ts"][-1])
        self._newest = newest if self._newest is None else max(newest, self._newest)
        self.number = max(self.number, segment.newest_number)
        self.segments.append(segment)
        self._merge(segment.chunk)
        self.segments.sort(key=lambda one: (one.chunk, one.ends[0]))

    def _own_counts(self) -> None:
        """C_k may be written to, and has room for all terms: what was given out stays as it is."""
        width = len(self.vocabulary)
        if self._shared or len(self._held) < width:
            room = len(self._held) if width <= len(self._held) else max(width, 2 * len(self._held), 1024)
            self._held = np.concatenate([self._held, np.zeros(room - len(self._held))])
            self._shared = False

    def _merge(self, chunk: int) -> None:
        """The smallest segments of a chunk become one while it is less than twice their size together."""
        while True:
            mine = sorted((s for s in self.segments if s.chunk == chunk), key=len)
            if len(mine) < 2 or len(mine[1]) >= 2 * len(mine[0]) or len(mine[0]) + len(mine[1]) > ROWS:
                return
            merged = Segment.merged(mine[:2])
            self.segments = [s for s in self.segments if s not in mine[:2]] + [merged]

    # E and C_k

    def pin(self, event: Past) -> Pinned:
        """E and C_k up to and including an event, of what came in up to `event.number`.

        The event itself counts once, whether or not it is in the corpus yet.
        """
        width = len(self.vocabulary)
        events, newest = self._events, self._newest
        less = None
        for segment in self.segments:
            counted = segment.counted(event.key, event.number)
            if counted is not None:
                less = np.zeros(width) if less is None else less
                less[segment.known] -= segment.holding(~counted)
                events -= int(np.count_nonzero(~counted))
        changed, changes = _NONE, np.zeros(0)
        if less is not None:
            changed = np.flatnonzero(less).astype(np.int32)
            changes = less[changed]
            newest = max((t for s in self.segments if (t := _newest(s, event)) is not None), default=None)
        if not self._holds(event):
            events += 1
            newest = event.ts
            mine = self.vocabulary.context(event.facts).terms
            if len(changed):
                both = np.union1d(changed, mine).astype(np.int32)
                more = np.isin(both, mine).astype(np.float64)
                more[np.searchsorted(both, changed)] += changes
                changed, changes = both, more
            else:
                changed, changes = mine, np.ones(len(mine))
        self._shared = True
        return Pinned(events, self._held, changed, changes, newest)

    def counted(self, one: Comparison) -> Counts:
        """What is pinned, for every term."""
        if one.counts is None:
            pinned = one.pinned
            holding = np.zeros(len(self.vocabulary))
            size = min(len(holding), len(pinned.base))
            holding[:size] = pinned.base[:size]
            holding[pinned.changed] += pinned.changes
            one.counts = Counts(pinned.events, holding, pinned.newest, self.vocabulary.attributes)
        return one.counts

    def scales(self, one: Comparison) -> Scales:
        """What is pinned for numeric attributes: the values up to and including the event's."""
        if one.scales is None:
            parts = []
            for segment in self.segments:
                counted = segment.counted(one.event.key, one.event.number)
                held = segment.values
                mine = slice(None) if counted is None else counted[held.rows]
                parts.append(Values(held.rows[mine], held.attributes[mine], held.values[mine]))
            own = NOTHING if self._holds(one.event) else flat([one.event.numbers])
            one.scales = scales(parts, own, list(self.numeric.values()))
        return one.scales

    def _holds(self, event: Past) -> bool:
        return any(int(s.arrays["numbers"][row]) <= event.number for s, row in self._rows(event.key))

    def _rows(self, key: Key) -> Iterable[tuple[Segment, int]]:
        for segment in self.segments:
            if segment.ends[0] <= key <= segment.ends[1]:
                row = segment.place(key)
                if segment.key(row) == key:
                    yield segment, row

    def context(self, key: Key) -> Context:
        """The context of an event of the corpus."""
        for segment, row in self._rows(key):
            return segment.context(row)
        raise KeyError(key)

    # Comparing

    def score(self, comparisons: Sequence[Comparison], spans: Sequence[Span]) -> list[tuple[int, bool]]:
        """Compare each event with past ones of a span of time, all in one pass.

        Returns for each how many it was compared with, and whether its best have changed.
        """
        compared, changed = [0] * len(comparisons), [False] * len(comparisons)
        queries = [self._query(one) for one in comparisons]
        level = self._level
        for segment in self.segments:
            for at, (one, query, (low, high)) in enumerate(zip(comparisons, queries, spans, strict=True)):
                first, last = segment.within(low, min(high, one.newest))
                if first >= last:
                    continue
                compared[at] += last - first
                if query is None:
                    rows, scores = self._plainly(segment, one, first, last)
                else:
                    if not query.sets:
                        self._heed(segment, level)
                    limits = (first, last), one.top.k, one.top.least
                    rows, scores = segment.search(query, one.pinned, one.seen, *limits, self._room)
                if len(rows):
                    changed[at] = one.top.put([segment.key(int(row)) for row in rows], scores) or changed[at]
        return list(zip(compared, changed, strict=True))

    def _query(self, one: Comparison) -> Query | None:
        """The event as the fast search takes it; None: its measure is another, or that is TF-IDF and there are numbers
        or its counts lie too far back."""
        context = self.vocabulary.context(one.event.facts)
        if isinstance(one.measure, Binary):
            return one.pinned.query_of_set(context)
        if not isinstance(one.measure, TfIdf) or self.numeric or one.pinned.level < self._level - kernel.LAG:
            return None
        return one.pinned.query(context)

    @property
    def _level(self) -> float:
        return math.log10(max(self._events, 1))

    def _plainly(self, segment: Segment, one: Comparison, first: int, last: int) -> tuple[Places, Floats]:
        """The best of some rows by any measure, from the scores of all."""
        context = self.vocabulary.context(one.event.facts)
        if self.numeric and isinstance(one.measure, TfIdf):
            scores = self._with_numbers(context, segment.rows(first, last), segment.values.within(first, last), one)
        else:
            scores = one.measure.scores(context, segment.rows(first, last), self.counted(one))
        scores[segment.arrays["numbers"][first:last] > one.seen] = 0
        rows = best(scores, one.top.k)
        return rows + first, scores[rows]

    def _with_numbers(self, context: Context, rows: Rows, values: Values, one: Comparison) -> Floats:
        """TF-IDF of terms and numbers together."""
        own, known = flat([one.event.numbers]), self.scales(one)
        near = products(own, values, known, len(rows)), squares(own, known, 1), squares(values, known, len(rows))
        return with_numbers(context, rows, self.counted(one), *near)

    def nearness(self, one: Comparison, key: Key) -> list[tuple[str, float]]:
        """By numeric attribute, as `cpu=93.5~91.2`, what its values add to the product of the weights of an event and
        a past one; empty where numbers are not compared."""
        if not self.numeric or not isinstance(one.measure, TfIdf):
            return []
        own, known = flat([one.event.numbers]), self.scales(one)
        found = []
        for segment, row in self._rows(key):
            there = segment.values.within(row, row + 1)
            for place, name in enumerate(self.numeric):
                mine, theirs = own.of(place), there.of(place)
                if place in known and len(mine.values) and len(theirs.values):
                    part = float(products(mine, theirs, {place: known[place]}, 1)[0])
                    values = (" ".join(f"{value:.6g}" for value in side.values) for side in (mine, theirs))
                    found.append((f"{name}={'~'.join(values)}", part))
            break
        return found

    def heed(self) -> None:
        """Bring the bounds of all segments up to E and C_k of now."""
        level = self._level
        for segment in self.segments:
            self._heed(segment, level)

    def _heed(self, segment: Segment, level: float) -> None:
        """Bring a segment's bounds up to E and C_k of now; `level`: log E."""
        if segment.aged(level):
            segment.weigh(level, self._held)
        elif segment.heeded < len(self._journal):
            segment.lower(*self._journal.since(segment.heeded, self._held))
        segment.heeded = len(self._journal)

    # What unread history can bring

    def bounds(self, one: Comparison, spans: Sequence[Span]) -> list[float]:
        """For each span [low, high) of time, microseconds, the most that an event of it can score; 0: none can.

        Computed from the segments' terms and bounds alone; it holds for what is in the index now.
        """
        query = self._query(one)
        known = [(segment, self._bound(segment, one, query)) for segment in self.segments]
        return _most(known, spans, one.newest)

    def promises(self, one: Comparison, spans: Sequence[Span]) -> list[float]:
        """By which to rank spans of time: for each, what its terms' summaries let expect of its best. No bound."""
        context = self.vocabulary.context(one.event.facts)
        query = one.pinned.query(context)
        self.heed()
        known = [(segment, segment.promise(query)) for segment in self.segments]
        return _most(known, spans, one.newest)

    def _bound(self, segment: Segment, one: Comparison, query: Query | None) -> float:
        context = self.vocabulary.context(one.event.facts)
        if query is not None:
            if not query.sets:
                self._heed(segment, self._level)
            return segment.bound(query, known_norms=True)
        if not isinstance(one.measure, TfIdf):
            # Nothing in common is no hit, whatever the measure.
            return math.inf if np.isin(context.terms, segment.known).any() else 0.0
        query = one.pinned.query(context)
        own, known = flat([one.event.numbers]), self.scales(one) if self.numeric else {}
        both = {at: scale for at, scale in known.items() if (segment.arrays["attributes"] == at).any()}
        most, norm = (float(squares(own, some, 1)[0]) for some in (both, known))
        # By Cauchy–Schwarz: the part of the query that can have a counterpart there.
        most += (segment.bound(query, known_norms=False) * query.norm) ** 2
        norm += query.norm**2
        return math.sqrt(most / norm) if norm > 0 else 0.0


def _most(known: Sequence[tuple[Segment, float]], spans: Sequence[Span], newest: int) -> list[float]:
    """For each span of time the most of those segments that have events in it before a time; 0: none has."""
    some = [(segment, most) for segment, most in known if most > 0]
    oldest, latest = (np.array([segment.ends[end][0] for segment, _ in some], dtype=np.int64) for end in (0, 1))
    found = []
    for low, high in spans:
        until = min(high, newest)
        near = (oldest < until) if low is None else (oldest < until) & (latest >= low)
        there = (some[at] for at in np.flatnonzero(near))
        found.append(max((most for segment, most in there if _meets(segment, low, until)), default=0.0))
    return found


def _meets(segment: Segment, low: int | None, high: int) -> bool:
    first, last = segment.within(low, high)
    return first < last


def _newest(segment: Segment, event: Past) -> int | None:
    counted = segment.counted(event.key, event.number)
    ts = segment.arrays["ts"] if counted is None else segment.arrays["ts"][counted]
    return int(ts[-1]) if len(ts) else None


def restored(k: int, hits: Sequence[tuple[int, str, float]]) -> TopK[Key]:
    """The best so far, as they were kept."""
    top: TopK[Key] = TopK(k)
    top.hits = [Hit((ts, eid), score) for ts, eid, score in hits]
    return top


def past(ts: int, eid: str, number: int, contexts: Contexts, names: Iterable[str], numeric: Mapping[str, Any]) -> Past:
    """An event by some of its contexts: the terms `attribute=value`, with how often each occurs; of `numeric`
    attributes the values that are numbers. NULL gives nothing."""
    facts: dict[str, int] = {}
    numbers: dict[int, list[float]] = {}
    places = {attribute: place for place, attribute in enumerate(sorted(numeric))}
    for name in names:
        for row in contexts.get(name, ()):
            for attribute, value in row.items():
                number_of = _number(value) if attribute in places else None
                if number_of is not None:
                    numbers.setdefault(places[attribute], []).append(number_of)
                elif value is not None:
                    term = f"{attribute}={value}"
                    facts[term] = facts.get(term, 0) + 1
    return Past(ts, eid, number, facts, numbers)


def facts(contexts: Contexts, names: Iterable[str]) -> Mapping[str, int]:
    """The terms of some of an event's contexts, numbers as their text."""
    return past(0, "", 0, contexts, names, {}).facts


def _number(value: str | None) -> float | None:
    try:
        found = math.nan if value is None else float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
