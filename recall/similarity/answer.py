"""A similarity recall while it runs: the event's context, what it is counted with, and the best so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from recall.request import Asked, SimilarQuestion
from recall.similarity.corpus import Counts
from recall.similarity.index import Index, Key, Past, facts, restored
from recall.similarity.measure import MEASURES, Measure
from recall.similarity.ranking import TopK, explain

# Terms shown for each hit, of each sort.
_TERMS = 12


@dataclass
class SimilarState:
    """Everything between two pieces of history. E and C_k stay as they were at the first."""

    event: Past
    measure: Measure
    counts: Counts
    top: TopK[Key]

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
        event = Past(asked.ts, str(asked.eid), number, facts(contexts, question.contexts))
        hits = [] if held is None else [tuple(hit) for hit in orjson.loads(held)]
        return cls(event, MEASURES[question.measure], index.counts(event), restored(question.k, hits))

    def dump(self) -> bytes:
        """What must be kept to go on."""
        return orjson.dumps([(*hit.event, hit.score) for hit in self.top.hits])

    def answer(self, index: Index) -> list[dict[str, Any]]:
        """The best so far, each with its reasons."""
        query = index.vocabulary.context(self.event.facts)
        rows = []
        for rank, hit in enumerate(self.top.hits, start=1):
            why = explain(self.measure, index.vocabulary, query, index.context(hit.event), self.counts)
            rows.append(
                {
                    "rank": rank,
                    "past_eid": hit.event[1],
                    "past_ts": hit.event[0],
                    "score": hit.score,
                    "shared": [[term, share] for term, share in list(why.shared.items())[:_TERMS] if share > 0],
                    "only_new": why.only_query[:_TERMS],
                    "only_past": why.only_past[:_TERMS],
                    "corpus": {"events": why.events, "newest": why.newest, "number": self.event.number},
                }
            )
        return rows


def compare(
    index: Index, state: SimilarState, question: SimilarQuestion, low: int | None, high: int
) -> tuple[int, bool]:
    """Compare with the events of a piece of history; returns how many, and whether the best have changed."""
    newest = state.event.ts - question.gap + 1 if question.gap else state.event.ts
    return index.score(state.event, state.counts, state.measure, low, min(high, newest), state.top)
