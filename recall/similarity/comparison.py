"""The comparison of one event with past events: what is fixed when it begins, and the best hits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from archiver.times import Micros
from recall.similarity.candidates import RANK_ALL_EVENTS, Candidates
from recall.similarity.events import CorpusEvent, EventKey
from recall.similarity.measures import ContextVector, CorpusCounts, Floats, Measure
from recall.similarity.numeric import Scales
from recall.similarity.ranking import RankedHit, TopK
from recall.similarity.segments import KnownRows, PinnedCounts, RowsOfSegment, Segment
from recall.similarity.spans import SegmentSpans


class ScoredRows(NamedTuple):
    """By past event its score, 0 if its context shares no term with the query's; that by TF-IDF,
    not rounded; and the latter plus its offset, see `KnownRows`, -∞ if it has none.
    """

    scores: Floats
    tfidf_scores: Floats
    estimates: Floats


class EventForecast(NamedTuple):
    """What an event probably is, as JSON: what is shown, and the shares of all labels, which are
    compared with the right one when it becomes known.
    """

    shown: Mapping[str, Any]
    shares: Mapping[str, Any]


class EventScorer(Protocol):
    """Scores past events of an index by more than their contexts."""

    def score_rows(
        self, query: ContextVector, counts: CorpusCounts, parts: Sequence[RowsOfSegment]
    ) -> ScoredRows:
        """The scores of past events."""

    def find_known_rows(
        self, query: ContextVector, counts: CorpusCounts, segment: Segment
    ) -> KnownRows:
        """The rows of a segment that may be candidates by their estimates, see `Candidates`."""

    def explain(
        self, query: ContextVector, counts: CorpusCounts, segment: Segment, row: int
    ) -> Mapping[str, Any]:
        """What the score of one past event consists of, as keys of its hit."""

    def forecast(self) -> EventForecast:
        """What the event probably is."""


class SegmentBounds(NamedTuple):
    """Upper bounds of the scores of past events, by segment: they hold as long as it exists.

    `scores`: by TF-IDF where `scorer` ranks candidates. `estimates`: then those of events by their
    estimates, -∞ if a segment has none that has one.
    """

    spans: SegmentSpans
    scores: Floats
    estimates: Floats


@dataclass
class Comparison:
    """An event that is compared, with its pinned counts. The best hits are collected in `top`."""

    event: CorpusEvent
    pinned_counts: PinnedCounts
    measure: Measure
    top: TopK[EventKey]
    before_ts: Micros
    """Only events older than this are compared."""
    max_sequence: int
    """Only events that entered the corpus up to this sequence number are compared."""
    scorer: EventScorer | None = None
    """Scores events instead of `measure`, which explains the shared terms; None: `measure` does."""
    candidates: Candidates | None = None
    """Among which `scorer` ranks; None: among all events."""
    context: ContextVector | None = None
    """The terms of `event` by their numbers in the vocabulary, computed at first use."""
    counts: CorpusCounts | None = None
    """`pinned_counts` for every term, computed at first use."""
    scales: Scales | None = None
    """The pinned scales of numeric attributes, computed at first use."""
    bounds: SegmentBounds | None = None
    """The bounds of all segments at the last use, of which new ones are computed at the next."""


def restore_top(k: int, hits: Sequence[tuple[int, str, float]]) -> TopK[EventKey]:
    """The best hits from stored (ts, event ID, score), best first."""
    top: TopK[EventKey] = TopK(k)
    top.hits = [RankedHit((ts, eid), score) for ts, eid, score in hits]
    return top


def make_candidates(scorer: EventScorer | None, counts: PinnedCounts, k: int) -> Candidates | None:
    """Candidates for an event with these pinned counts; None: all events are ranked."""
    if scorer is None or counts.event_count <= RANK_ALL_EVENTS:
        return None
    return Candidates(k)
