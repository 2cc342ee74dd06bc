"""Contexts that were put together once and stay: rows, inverted lists, and bounds of what any of them can score.

At most `ROWS` contexts, so that a row is a number of 16 bits and the sums of a search stay in the processor's cache.
A posting costs 8 bytes: 4 + 1 in its row, 2 + 1 in its list (more where a term occurs 256 times or more).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity import kernel
from recall.similarity.corpus import Context, Floats, Ids, Rows, Vocabulary
from recall.similarity.numeric import NOTHING, Values, flat

ROWS = 1 << 16
# Bounds are made anew when log E has grown by so much, by some 5 % of E.
_GROWN = 0.02

Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Past:
    """An event of the corpus: its number tells when it came in, `facts` how often its context holds each term,
    `numbers` the values of numeric attributes, these by number."""

    ts: int
    eid: str
    number: int
    facts: Mapping[str, int]
    numbers: Mapping[int, Sequence[float]] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.ts, self.eid


@dataclass(frozen=True, slots=True)
class Query:
    """A context as the kernel wants it: terms that weigh, the rarest first; see `kernel.search`. `sets`: contexts are
    compared as sets of terms that all weigh 1."""

    terms: Ids
    gains: Floats
    weights: Floats
    norm: float
    logs: Floats
    sets: bool = False


@dataclass(frozen=True)
class Pinned:
    """E and C_k of one question: what the index holds, and a few changes; how they are kept in bulk is shared."""

    events: int
    base: Floats
    """C_k by term; terms beyond its end are held by none."""
    changed: Ids
    """Ascending."""
    changes: Floats
    """What is to be added to the C_k of these."""
    newest: int | None

    def held(self, terms: Ids) -> Floats:
        """C_k of some terms, 1 at least."""
        found = np.zeros(len(terms))
        inside = terms < len(self.base)
        found[inside] = self.base[terms[inside]]
        places = np.searchsorted(self.changed, terms)
        known = places < len(self.changed)
        known[known] = self.changed[places[known]] == terms[known]
        found[known] += self.changes[places[known]]
        held: Floats = np.maximum(found, 1)
        return held

    @property
    def level(self) -> float:
        """log E."""
        return math.log10(max(self.events, 1))

    def query(self, context: Context) -> Query:
        """A context, weighed."""
        held = self.held(context.terms)
        logs, idf = np.log10(held), np.log10(max(self.events, 1) / held)
        weights = context.counts * idf
        norm = math.sqrt(float(np.sum(weights**2)))
        order = np.argsort(-idf, kind="stable")
        order = order[weights[order] > 0]
        return Query(context.terms[order], (weights * idf)[order], weights[order], norm, logs[order])

    def query_of_set(self, context: Context) -> Query:
        """The set of a context's terms."""
        order = np.argsort(self.held(context.terms), kind="stable")
        once = np.ones(len(order))
        return Query(context.terms[order], once, once, math.sqrt(len(order)), np.zeros(len(order)), sets=True)


# With these counts every term weighs 1.
_ALIKE = Pinned(10, np.zeros(0), np.empty(0, dtype=np.int32), np.zeros(0), None)


class Room:
    """Scratch for searches, one after the other."""

    def __init__(self) -> None:
        self.sums = np.zeros(ROWS, dtype=np.float32)
        self.mine = np.zeros(0)

    def wide(self, width: int) -> Floats:
        """Zeros by term."""
        if len(self.mine) < width:
            self.mine = np.zeros(2 * width)
        return self.mine


# What a segment consists of, as it is kept on disk. Those of `BOUNDS` change with E and C_k.
ARRAYS = (
    "ts",
    "eids",
    "numbers",
    "starts",
    "terms",
    "counts",
    "heads",
    "docs",
    "times",
    "rows",
    "attributes",
    "values",
)
BOUNDS = ("logs", "squares", "once", "twice", "inverses", "impacts")
_LOWERED = ("starts", "terms", "counts", "heads", "docs", "times", *BOUNDS)
# Some arrays, as arguments: of each of some tens of segments in every search.
_lowered, _searched = itemgetter(*_LOWERED), itemgetter(*_LOWERED, "numbers")


class Segment:
    """Contexts in (ts, eid) order. `arrays` as named in `ARRAYS`, perhaps `BOUNDS`; `ids`: its terms' numbers."""

    def __init__(
        self, chunk: int, arrays: Mapping[str, npt.NDArray[Any]], ids: Ids, level: float | None = None
    ) -> None:
        self.chunk = chunk
        # Bounds change; all else may lie in a file, and is compiled for once wherever it lies.
        self.arrays = {n: array.copy() if n in BOUNDS else _fixed(array) for n, array in arrays.items()}
        self.known = ids
        self._order = np.argsort(ids).astype(np.int32)
        self._ids = ids[self._order]
        self.level = level
        """log E for which bounds were made; None: there are none."""
        self.heeded = 0
        """How far in the index's journal of changed terms the bounds are up to date."""
        self.file: tuple[str, int, int] | None = None
        """Where it is kept: name, size, checksum."""

    @classmethod
    def of(cls, chunk: int, events: Sequence[Past], vocabulary: Vocabulary) -> "Segment":
        """From events in any order."""
        ordered = sorted(events, key=lambda past: past.key)
        contexts = [vocabulary.context(past.facts) for past in ordered]
        sizes = np.array([len(context.terms) for context in contexts])
        return cls.made(
            chunk,
            np.array([past.ts for past in ordered], dtype=np.int64),
            np.array([past.eid.encode() for past in ordered], dtype=np.bytes_),
            np.array([past.number for past in ordered], dtype=np.int64),
            sizes,
            np.concatenate([context.terms for context in contexts]),
            np.concatenate([context.counts for context in contexts]),
            flat(past.numbers for past in ordered),
        )

    @classmethod
    def made(
        cls,
        chunk: int,
        ts: npt.NDArray[np.int64],
        eids: npt.NDArray[np.bytes_],
        numbers: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        terms: Ids,
        counts: Floats,
        numeric: Values = NOTHING,
    ) -> "Segment":
        """From rows in order: how many terms each has, and these one after the other; and numbers."""
        ids, local = np.unique(terms, return_inverse=True)
        most = counts.max(initial=0)
        small = counts.astype(np.uint8 if most < 256 else np.float64)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        local = local.astype(np.int32)
        heads = np.zeros(len(ids) + 1, dtype=np.int64)
        docs, times = np.empty(len(terms), dtype=np.uint16), np.empty(len(terms), dtype=small.dtype)
        kernel.invert(starts, local, small, len(ids), heads, docs, times)
        values = (ts, eids, numbers, starts, local, small, heads, docs, times, *vars(numeric).values())
        return cls(chunk, dict(zip(ARRAYS, values, strict=True)), ids.astype(np.int32))

    @classmethod
    def merged(cls, segments: Sequence["Segment"]) -> "Segment":
        """One of several of a chunk."""
        ts, eids, numbers = (np.concatenate([s.arrays[name] for s in segments]) for name in ("ts", "eids", "numbers"))
        order = np.lexsort((eids, ts))
        sizes = np.concatenate([np.diff(s.arrays["starts"]) for s in segments])
        firsts = np.cumsum(sizes) - sizes
        terms = np.concatenate([s.known[s.arrays["terms"]] for s in segments])
        counts = np.concatenate([s.arrays["counts"].astype(np.float64) for s in segments])
        ends = np.cumsum(sizes[order])
        taken = np.repeat(firsts[order] - (ends - sizes[order]), sizes[order]) + np.arange(len(terms))
        moved = np.argsort(order)  # where each row goes
        offsets = np.cumsum([0, *(len(s) for s in segments)])
        rows = np.concatenate([moved[s.values.rows + offset] for s, offset in zip(segments, offsets, strict=False)])
        attributes, values = (np.concatenate([s.arrays[name] for s in segments]) for name in ("attributes", "values"))
        place = np.lexsort((attributes, rows))
        numeric = Values(rows[place], attributes[place], values[place])
        keys = ts[order], eids[order], numbers[order]
        return cls.made(segments[0].chunk, *keys, sizes[order], terms[taken], counts[taken], numeric)

    def __len__(self) -> int:
        return len(self.arrays["ts"])

    @property
    def values(self) -> Values:
        """The numbers of its rows."""
        return Values(self.arrays["rows"], self.arrays["attributes"], self.arrays["values"])

    @cached_property
    def newest_number(self) -> int:
        return int(self.arrays["numbers"].max())

    @cached_property
    def ends(self) -> tuple[Key, Key]:
        """The keys of its first and last event."""
        return self.key(0), self.key(len(self) - 1)

    def key(self, row: int) -> Key:
        """How the event of a row is named."""
        return int(self.arrays["ts"][row]), self.arrays["eids"][row].decode()

    def place(self, key: Key) -> int:
        """The first row that is not older than a key."""
        row = int(np.searchsorted(self.arrays["ts"], key[0]))
        while row < len(self) and self.key(row) < key:
            row += 1
        return row

    def within(self, low: int | None, high: int) -> tuple[int, int]:
        """The rows whose time is in [low, high), from the first to before the last."""
        ts, ((oldest, _), (newest, _)) = self.arrays["ts"], self.ends
        first = 0 if low is None or low <= oldest else int(np.searchsorted(ts, low))
        return first, len(self) if high > newest else int(np.searchsorted(ts, high))

    def counted(self, up_to: Key, number: int) -> npt.NDArray[np.bool_] | None:
        """Which rows are of events up to a key, of those that came in up to a number; None: all."""
        if self.newest_number <= number and self.ends[1] <= up_to:
            return None
        counted = self.arrays["numbers"] <= number
        counted[self.place((up_to[0], up_to[1] + "\0")) :] = False
        return counted

    def holding(self, rows: npt.NDArray[np.bool_] | None = None) -> Floats:
        """For each of `known`, how many rows hold it; `rows`: only of these."""
        if rows is None:
            every: Floats = np.diff(self.arrays["heads"]).astype(np.float64)
            return every
        terms = self.arrays["terms"][np.repeat(rows, np.diff(self.arrays["starts"]))]
        return np.bincount(terms, minlength=len(self.known)).astype(np.float64)

    def context(self, row: int) -> Context:
        """The context of a row."""
        low, high = (int(self.arrays["starts"][at]) for at in (row, row + 1))
        terms = self.known[self.arrays["terms"][low:high]]
        order = np.argsort(terms)
        return Context(terms[order], self.arrays["counts"][low:high].astype(np.float64)[order])

    def rows(self, first: int, last: int) -> Rows:
        """Rows as any measure takes them."""
        low, high = (int(self.arrays["starts"][at]) for at in (first, last))
        starts = (self.arrays["starts"][first : last + 1] - low).astype(np.int32)
        counts = self.arrays["counts"][low:high].astype(np.float64)
        width = int(self.known.max(initial=-1)) + 1
        return Rows(starts, self.known[self.arrays["terms"][low:high]], counts, counts**2, width)

    # Bounds

    def aged(self, level: float) -> bool:
        """Whether bounds have to be made anew, for a log E of now."""
        return self.level is None or level > self.level + _GROWN

    def weigh(self, level: float, held: Floats) -> None:
        """Make bounds for counts as they are now: log E, C_k by term."""
        logs = np.log10(np.maximum(held[self.known], 1))
        self.arrays |= self._bounds(np.minimum(logs, level))
        self.level = level
        kernel.weigh(level, *(self.arrays[name] for name in ("starts", "terms", "counts", *BOUNDS)))

    def lower(self, terms: Ids, targets: Floats) -> None:
        """Lower bounds to counts as they are now, log C_k of the terms that have changed since the last time."""
        kernel.lower(terms, targets, self.level, self._ids, self._order, *_lowered(self.arrays))

    def _weighed(self, query: Query) -> tuple[float | None, Mapping[str, npt.NDArray[Any]]]:
        """What a query is held against: log E of the bounds, and all arrays."""
        return (1.0, self._sets) if query.sets else (self.level, self.arrays)

    @cached_property
    def _sets(self) -> Mapping[str, npt.NDArray[Any]]:
        """The arrays where contexts are sets: each term once, with log C_k = 0, so that nothing moves the bounds."""
        counts = _fixed(np.ones(len(self.arrays["terms"]), dtype=np.uint8))
        found = {**self.arrays, "counts": counts, "times": counts, **self._bounds(np.zeros(len(self.known)))}
        kernel.weigh(1.0, *(found[name] for name in ("starts", "terms", "counts", *BOUNDS)))
        return found

    def _bounds(self, logs: Floats) -> dict[str, npt.NDArray[Any]]:
        """Room for bounds of all rows, by log C_k."""
        return {
            "logs": logs,
            **{name: np.empty(len(self)) for name in ("squares", "once", "twice")},
            "inverses": np.empty(len(self), dtype=np.float32),
            "impacts": np.empty(len(self.known), dtype=np.float32),
        }

    def bound(self, query: Query, known_norms: bool) -> float:
        """No row scores more. `known_norms`: bounds are up to date with the question's counts."""
        if not len(query.terms):
            return 0.0
        _, arrays = self._weighed(query)
        if known_norms and not query.sets:
            self.lower(query.terms, query.logs)
        impacts = arrays["impacts"] if known_norms else np.empty(0, dtype=np.float32)
        local, left = np.empty(len(query.terms), dtype=np.int64), np.empty(len(query.terms) + 1)
        asked = (query.terms, query.gains, query.weights, query.norm)
        kernel.rests(*asked, self._ids, self._order, impacts, local, left)
        return float(left[0])

    def promise(self, query: Query) -> float:
        """What to expect of the best row: rare terms of the query that weigh much in some row here, more so where
        many rows hold them, which may be the same rows."""
        places = np.minimum(np.searchsorted(self._ids, query.terms), max(len(self._ids) - 1, 0))
        if not len(self._ids):
            return 0.0
        there = self._ids[places] == query.terms
        terms = self._order[places[there]]
        impacts, heads = self.arrays["impacts"][terms], self.arrays["heads"]
        parts = np.minimum(query.weights[there], query.gains[there] * np.minimum(impacts, 1e30)) / (query.norm or 1.0)
        return float(np.sum(parts**2 * np.sqrt(heads[terms + 1] - heads[terms])))

    def search(
        self, query: Query, pinned: Pinned, number: int, rows: tuple[int, int], k: int, least: float, room: Room
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """The rows that are among the k best and score `least` or more, best first, with their scores."""
        best, scores = np.empty(k, dtype=np.int64), np.empty(k)
        level, arrays = self._weighed(query)
        pinned = _ALIKE if query.sets else pinned
        found = kernel.search(
            *(query.terms, query.logs, level, query.gains, query.weights, query.norm),
            *(float(max(pinned.events, 1)), pinned.base, pinned.changed, pinned.changes),
            *(self._ids, self._order, self.known),
            *_searched(arrays),
            *(*rows, number, k, least, room.sums, room.wide(len(self.known)), best, scores),
        )
        return best[:found], scores[:found]


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same, not to be written to."""
    found = array.view()
    found.flags.writeable = False
    return found
