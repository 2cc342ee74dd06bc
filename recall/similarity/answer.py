"""A similarity recall while it runs: the event's context, what it is counted with, and the best so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from recall.request import Asked, SimilarQuestion
from recall.similarity.index import Comparison, Index, Key, Span, past, restored
from recall.similarity.measure import MEASURES
from recall.similarity.ranking import TopK, explain

# Terms shown for each hit, of each sort.
_TERMS = 12
# Two scores nearer than this may be one after rounding.
_TIE = 1 - 1e-9


@dataclass
class SimilarState:
    """Everything between two pieces of history. E and C_k stay as they were at the first."""

    index: Index
    """The corpus in which the comparison's terms and counts are numbered."""
    comparison: Comparison
    seen: list[tuple[int, int]] = field(default_factory=list)
    """Up to which number of the corpus pieces were compared: how many pieces in a row, and the number."""

    @property
    def top(self) -> TopK[Key]:
        """The best so far."""
        return self.comparison.top

    @classmethod
    def of(
        cls,
        index: Index,
        question: SimilarQuestion,
        asked: Asked,
        number: int,
        contexts: Mapping[str, Sequence[Mapping[str, str | None]]],
        held: bytes | None,
    ) -> "SimilarState":
        """Begin, or go on from what was kept. `number`: the corpus that is counted."""
        event = past(asked.ts, str(asked.eid), number, contexts, question.contexts, index.numeric)
        kept = {"hits": [], "seen": []} if held is None else orjson.loads(held)
        hits = [tuple(hit) for hit in kept["hits"]]
        newest = event.ts - question.gap + 1 if question.gap else event.ts
        measure, top = MEASURES[question.measure], restored(question.k, hits)
        comparison = Comparison(event, index.pin(event), measure, top, newest, number)
        return cls(index, comparison, [(pieces, seen) for pieces, seen in kept["seen"]])

    def dump(self) -> bytes:
        """What must be kept to go on."""
        return orjson.dumps({"hits": [(*hit.event, hit.score) for hit in self.top.hits], "seen": self.seen})

    def pass_over(self, pieces: int) -> None:
        """So many pieces come before all others, and held nothing of use when the corpus was counted."""
        if pieces:
            self.seen.append((pieces, self.comparison.event.number))

    def see(self, number: int) -> None:
        """The next piece is compared with what has come in up to a number."""
        self.comparison.seen = number
        if self.seen and self.seen[-1][1] == number:
            self.seen[-1] = self.seen[-1][0] + 1, number
        else:
            self.seen.append((1, number))

    def answer(self, index: Index) -> list[dict[str, Any]]:
        """The best so far, each with its reasons."""
        one = self.comparison
        query, counts = index.vocabulary.context(one.event.facts), index.counted(one)
        rows = []
        for rank, hit in enumerate(one.top.hits, start=1):
            why = explain(one.measure, index.vocabulary, query, index.context(hit.event), counts)
            rows.append(
                {
                    "rank": rank,
                    "past_eid": hit.event[1],
                    "past_ts": hit.event[0],
                    "score": hit.score,
                    "shared": _shares(index, one, hit.event, why.shared)[:_TERMS],
                    "only_new": why.only_query[:_TERMS],
                    "only_past": why.only_past[:_TERMS],
                    "corpus": {
                        "events": why.events,
                        "newest": why.newest,
                        "number": one.event.number,
                        "seen": self.seen,
                    },
                }
            )
        return rows


def _shares(index: Index, one: Comparison, hit: Key, terms: Mapping[str, float]) -> list[tuple[str, float]]:
    """What is shared, with its share of the score, the largest first: terms, and numbers with how near they are."""
    parts = list(terms.items())
    near = index.nearness(one, hit)
    if near:
        query, past = index.vocabulary.context(one.event.facts), index.context(hit)
        whole = float(one.measure.parts(query, past, index.counted(one)).sum())
        total = whole + sum(part for _, part in near) or 1.0
        parts = [(term, share * whole / total) for term, share in parts]
        parts += [(name, part / total) for name, part in near]
    return sorted(((term, share) for term, share in parts if share > 0), key=lambda part: (-part[1], part[0]))


def compare(index: Index, states: Sequence[SimilarState], spans: Sequence[Span]) -> list[tuple[int, bool]]:
    """Compare each with the events of a piece of history, in one pass for all; for each how many there were, and
    whether its best have changed. Events that were found since E and C_k were counted are candidates too."""
    for state in states:
        state.see(max(index.number, state.comparison.event.number))
    return index.score([state.comparison for state in states], spans)


def barren(index: Index, state: SimilarState, spans: Sequence[Span]) -> list[bool]:
    """For each of some pieces of history, whether none of its events shares anything with the new one."""
    return [bound == 0 for bound in index.bounds(state.comparison, spans)]


def hopeful(index: Index, state: SimilarState, spans: Sequence[Span]) -> int:
    """How many of some pieces of history may still change the best: those with an event that may reach the k-th
    score. Where there are fewer than k hits, any event that scores at all does."""
    least = state.top.least * _TIE
    return sum(bound > 0 and bound >= least for bound in index.bounds(state.comparison, spans))
