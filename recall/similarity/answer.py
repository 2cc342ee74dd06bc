"""The state of one similarity recall, which can be stored between pieces and resumed. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson

from archiver.time_range import TimeRange
from recall.requests import RecallEvent, SimilarQuestion
from recall.similarity.candidate_search import TIE_FACTOR
from recall.similarity.comparison import (
    Comparison,
    EventForecast,
    EventScorer,
    make_candidates,
    restore_top,
)
from recall.similarity.events import (
    ContextTables,
    CorpusEvent,
    EventKey,
    make_corpus_event,
)
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES, UNLEARNED_MEASURE
from recall.similarity.ranking import ScoreExplanation, TopK, explain_score

# Maximum number of terms shown for each hit, separately for shared terms and those of one side.
_MAX_TERMS = 12


@dataclass
class SimilarState:
    """A comparison between two pieces of history. E and C_k stay as pinned at the first piece."""

    index: Index
    """The corpus whose vocabulary numbers the comparison's terms."""
    comparison: Comparison
    seen_runs: list[tuple[int, int]] = field(default_factory=list)
    """For each run of compared pieces: their number, and the sequence number of the newest event
    that was in the corpus."""

    @property
    def top(self) -> TopK[EventKey]:
        """The best hits so far."""
        return self.comparison.top

    @classmethod
    def resume(
        cls,
        index: Index,
        question: SimilarQuestion,
        recall_event: RecallEvent,
        sequence: int,
        contexts: ContextTables,
        stored: bytes | None,
        make_scorer: Callable[[CorpusEvent], EventScorer] | None = None,
    ) -> "SimilarState":
        """Begin a comparison, or continue from `stored`, the result of `dump`.

        `sequence`: E and C_k count the events that entered the corpus up to this number.
        `make_scorer`: builds what scores past events instead of the question's measure.
        """
        event = make_corpus_event(
            recall_event.ts,
            str(recall_event.eid),
            sequence,
            contexts,
            question.contexts,
            index.numeric,
        )
        state: dict[str, Any] = {"hits": [], "seen": []}
        if stored is not None:
            state = orjson.loads(stored)
        before_ts = event.ts
        if question.gap:
            before_ts = event.ts - question.gap + 1
        pinned_counts = index.pin_counts(event)
        scorer = None if make_scorer is None else make_scorer(event)
        candidates = make_candidates(scorer, pinned_counts, question.k)
        if candidates is not None and "candidates" in state:
            candidates.restore(state["candidates"])
        comparison = Comparison(
            event=event,
            pinned_counts=pinned_counts,
            measure=MEASURES.get(question.measure, MEASURES[UNLEARNED_MEASURE]),
            scorer=scorer,
            candidates=candidates,
            top=restore_top(question.k, list(map(tuple, state["hits"]))),
            before_ts=before_ts,
            max_sequence=sequence,
        )
        return cls(index, comparison, list(map(tuple, state["seen"])))

    def dump(self) -> bytes:
        """What `resume` needs to continue, as JSON."""
        hits = [(*hit.event, hit.score) for hit in self.top.hits]
        state: dict[str, Any] = {"hits": hits, "seen": self.seen_runs}
        if self.comparison.candidates is not None:
            state["candidates"] = self.comparison.candidates.to_json()
        return orjson.dumps(state)

    def merge(self, partial: bytes) -> bool:
        """Add the best hits of other pieces: the result of `dump` of a comparison with these alone.

        Both must have the same counts. Returns whether the best hits have changed.
        """
        stored = orjson.loads(partial)
        if self.comparison.candidates is not None:
            self.comparison.candidates.merge(stored["candidates"])
            return self.comparison.candidates.update_top(self.top)
        events = [(ts, eid) for ts, eid, _ in stored["hits"]]
        return self.top.add_hits(events, np.array([hit[2] for hit in stored["hits"]]))

    def skip_pieces(self, pieces: int) -> None:
        """Record that the first pieces need no comparison: no event in them can be a hit."""
        if pieces:
            self.seen_runs.append((pieces, self.comparison.event.sequence))

    def record_pieces(self, pieces: int, sequence: int) -> None:
        """Record that the next pieces are compared, with events up to a sequence number."""
        self.comparison.max_sequence = sequence
        if self.seen_runs and self.seen_runs[-1][1] == sequence:
            self.seen_runs[-1] = self.seen_runs[-1][0] + pieces, sequence
        else:
            self.seen_runs.append((pieces, sequence))

    def pieces_without_matches(self, spans: Sequence[TimeRange]) -> list[bool]:
        """For each piece of history, whether none of its events can score above 0."""
        bounds = self.index.score_bounds(self.comparison, spans)
        return [bound == 0 for bound in bounds.tolist()]

    def count_hopeful_pieces(self, index: Index, spans: Sequence[TimeRange]) -> int:
        """The number of pieces of history that may still change the best hits.

        These are the pieces with an event that may reach the k-th score or, while there are fewer
        than k hits, score above 0. If candidates are ranked, they are the pieces with an event that
        may become a candidate.
        """
        if self.comparison.candidates is not None:
            return sum(index.may_hold_candidates(self.comparison, spans))
        min_score = self.top.min_score * TIE_FACTOR
        bounds = index.score_bounds(self.comparison, spans)
        return int(np.count_nonzero((bounds > 0) & (bounds >= min_score)))

    def forecast(self) -> EventForecast | None:
        """What the event probably is; None if nothing was learned."""
        scorer = self.comparison.scorer
        return None if scorer is None else scorer.forecast()

    def build_answer(self, index: Index) -> list[dict[str, Any]]:
        """The best hits so far as rows of JSON, each with an explanation of its score."""
        comparison = self.comparison
        query = index.vocabulary.encode(comparison.event.term_counts)
        counts = index.full_counts(comparison)
        candidates = {}
        if comparison.candidates is not None:
            candidates["candidates"] = comparison.candidates.count()
        rows = []
        for rank, hit in enumerate(comparison.top.hits, start=1):
            past = index.context(hit.event)
            explanation = explain_score(comparison.measure, index.vocabulary, query, past, counts)
            shared = _score_shares(index, comparison, hit.event, explanation)
            rows.append(
                {
                    "rank": rank,
                    "past_eid": hit.event[1],
                    "past_ts": hit.event[0],
                    "score": hit.score,
                    "shared": shared[:_MAX_TERMS],
                    "only_new": explanation.only_query[:_MAX_TERMS],
                    "only_past": explanation.only_past[:_MAX_TERMS],
                    "corpus": {
                        "events": explanation.event_count,
                        "newest": explanation.newest_ts,
                        "number": comparison.event.sequence,
                        "seen": self.seen_runs,
                        **candidates,
                    },
                    **index.explain_by_scorer(comparison, hit.event),
                }
            )
        return rows


def _score_shares(
    index: Index, comparison: Comparison, past_event: EventKey, explanation: ScoreExplanation
) -> list[tuple[str, float]]:
    """Shared terms and near numeric values with their share of the score, largest first."""
    shares = list(explanation.shared_terms.items())
    numeric = index.numeric_contributions(comparison, past_event)
    if numeric:
        query = index.vocabulary.encode(comparison.event.term_counts)
        contributions = comparison.measure.term_contributions(
            query, index.context(past_event), index.full_counts(comparison)
        )
        terms_total = float(contributions.sum())
        total = terms_total + sum(contribution for _, contribution in numeric) or 1.0
        shares = [(term, share * terms_total / total) for term, share in shares]
        shares += [(label, contribution / total) for label, contribution in numeric]
    positive = [pair for pair in shares if pair[1] > 0]
    return sorted(positive, key=lambda pair: (-pair[1], pair[0]))


@dataclass(frozen=True)
class PartialAnswer:
    """What a comparison with the events of some pieces has found.

    `state`: as `SimilarState.dump` returns it. `compared`: the number of compared events.
    """

    state: bytes
    compared: int


@dataclass(frozen=True)
class DividedPieces:
    """Pieces of which some are compared elsewhere. `spans`: the others; adjacent ones are one.

    `max_sequence`: the highest sequence number of the compared events, there and here.
    """

    spans: Sequence[TimeRange]
    max_sequence: int
    answers: Sequence[PartialAnswer]


def compare(
    index: Index,
    states: Sequence[SimilarState],
    runs: Sequence[Sequence[TimeRange]],
    divided: Mapping[int, DividedPieces] = MappingProxyType({}),
) -> list[tuple[int, bool]]:
    """Compare each event with the events of its pieces of history, which are adjacent in time.

    Events that entered the corpus after E and C_k were pinned are candidates too. `divided`: by
    the position of a state, of those some of whose pieces are compared elsewhere. Returns for
    each state the number of compared events and whether its best hits have changed.
    """
    results = []
    for position, (state, pieces) in enumerate(zip(states, runs, strict=True)):
        if not pieces:
            results.append((0, False))
            continue
        parts = divided.get(position)
        if parts is None:
            sequence = max(index.last_sequence, state.comparison.event.sequence)
            parts = DividedPieces([reduce(TimeRange.enclose, pieces)], sequence, [])
        state.record_pieces(len(pieces), parts.max_sequence)
        compared, changed = 0, False
        for answer in parts.answers:
            compared += answer.compared
            changed |= state.merge(answer.state)
        for span in parts.spans:
            count, has_changed = index.score([state.comparison], [span])[0]
            compared += count
            changed |= has_changed
        results.append((compared, changed))
    return results
