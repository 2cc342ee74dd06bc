"""A similarity recall while it runs: the event's context, what it is counted with, and the best so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from recall.requests import RecallEvent, SimilarQuestion
from recall.similarity.index import (
    Comparison,
    EventKey,
    Index,
    TimeSpan,
    make_corpus_event,
    restore_top,
)
from recall.similarity.measure import MEASURES
from recall.similarity.ranking import TopK, explain_score

# Terms shown for each hit, of each sort.
_MAX_TERMS = 12
# Two scores nearer than this may be one after rounding.
_TIE_FACTOR = 1 - 1e-9


@dataclass
class SimilarState:
    """Everything between two pieces of history. E and C_k stay as they were at the first."""

    index: Index
    """The corpus in which the comparison's terms and counts are numbered."""
    comparison: Comparison
    seen_runs: list[tuple[int, int]] = field(default_factory=list)
    """Up to which number of the corpus pieces were compared: how many pieces in a row, and the number."""

    @property
    def top(self) -> TopK[EventKey]:
        """The best so far."""
        return self.comparison.top

    @classmethod
    def resume(
        cls,
        index: Index,
        question: SimilarQuestion,
        recall_event: RecallEvent,
        sequence: int,
        contexts: Mapping[str, Sequence[Mapping[str, str | None]]],
        stored: bytes | None,
    ) -> "SimilarState":
        """Begin, or go on from what was kept. `number`: the corpus that is counted."""
        event = make_corpus_event(
            recall_event.ts,
            str(recall_event.eid),
            sequence,
            contexts,
            question.contexts,
            index.numeric,
        )
        kept = {"hits": [], "seen": []} if stored is None else orjson.loads(stored)
        hits = [tuple(hit) for hit in kept["hits"]]
        newest = event.ts - question.gap + 1 if question.gap else event.ts
        measure, top = MEASURES[question.measure], restore_top(question.k, hits)
        comparison = Comparison(event, index.pin_counts(event), measure, top, newest, sequence)
        return cls(index, comparison, [(pieces, seen) for pieces, seen in kept["seen"]])

    def dump(self) -> bytes:
        """What must be kept to go on."""
        return orjson.dumps(
            {"hits": [(*hit.event, hit.score) for hit in self.top.hits], "seen": self.seen_runs}
        )

    def skip_pieces(self, pieces: int) -> None:
        """So many pieces come before all others, and held nothing of use when the corpus was counted."""
        if pieces:
            self.seen_runs.append((pieces, self.comparison.event.sequence))

    def record_piece(self, sequence: int) -> None:
        """The next piece is compared with what has come in up to a number."""
        self.comparison.max_sequence = sequence
        if self.seen_runs and self.seen_runs[-1][1] == sequence:
            self.seen_runs[-1] = self.seen_runs[-1][0] + 1, sequence
        else:
            self.seen_runs.append((1, sequence))

    def build_answer(self, index: Index) -> list[dict[str, Any]]:
        """The best so far, each with its reasons."""
        one = self.comparison
        query, counts = index.vocabulary.encode(one.event.term_counts), index.full_counts(one)
        rows = []
        for rank, hit in enumerate(one.top.hits, start=1):
            why = explain_score(
                one.measure, index.vocabulary, query, index.context(hit.event), counts
            )
            rows.append(
                {
                    "rank": rank,
                    "past_eid": hit.event[1],
                    "past_ts": hit.event[0],
                    "score": hit.score,
                    "shared": _score_shares(index, one, hit.event, why.shared_terms)[:_MAX_TERMS],
                    "only_new": why.only_query[:_MAX_TERMS],
                    "only_past": why.only_past[:_MAX_TERMS],
                    "corpus": {
                        "events": why.event_count,
                        "newest": why.newest_ts,
                        "number": one.event.sequence,
                        "seen": self.seen_runs,
                    },
                }
            )
        return rows


def _score_shares(
    index: Index, one: Comparison, hit: EventKey, terms: Mapping[str, float]
) -> list[tuple[str, float]]:
    """What is shared, with its share of the score, the largest first: terms, and numbers with how near they are."""
    parts = list(terms.items())
    near = index.numeric_contributions(one, hit)
    if near:
        query, past = index.vocabulary.encode(one.event.term_counts), index.context(hit)
        whole = float(one.measure.term_contributions(query, past, index.full_counts(one)).sum())
        total = whole + sum(part for _, part in near) or 1.0
        parts = [(term, share * whole / total) for term, share in parts]
        parts += [(name, part / total) for name, part in near]
    return sorted(
        ((term, share) for term, share in parts if share > 0), key=lambda part: (-part[1], part[0])
    )


def compare(
    index: Index, states: Sequence[SimilarState], spans: Sequence[TimeSpan]
) -> list[tuple[int, bool]]:
    """Compare each with the events of a piece of history, in one pass for all; for each how many there were, and
    whether its best have changed. Events that were found since E and C_k were counted are candidates too."""
    for state in states:
        state.record_piece(max(index.last_sequence, state.comparison.event.sequence))
    return index.score([state.comparison for state in states], spans)


def pieces_without_matches(
    index: Index, state: SimilarState, spans: Sequence[TimeSpan]
) -> list[bool]:
    """For each of some pieces of history, whether none of its events shares anything with the new one."""
    return [bound == 0 for bound in index.score_bounds(state.comparison, spans)]


def count_hopeful_pieces(index: Index, state: SimilarState, spans: Sequence[TimeSpan]) -> int:
    """How many of some pieces of history may still change the best: those with an event that may reach the k-th
    score. Where there are fewer than k hits, any event that scores at all does."""
    least = state.top.min_score * _TIE_FACTOR
    return sum(
        bound > 0 and bound >= least for bound in index.score_bounds(state.comparison, spans)
    )
