"""The comparison of one event with past events: what is fixed when it begins, and the best hits."""

from collections.abc import Sequence
from dataclasses import dataclass

from archiver.times import Micros
from recall.similarity.corpus import CorpusCounts
from recall.similarity.events import CorpusEvent, EventKey
from recall.similarity.measure import Measure
from recall.similarity.numeric import Scales
from recall.similarity.pinned_counts import PinnedCounts
from recall.similarity.ranking import RankedHit, TopK


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
    counts: CorpusCounts | None = None
    """`pinned_counts` for every term, computed at first use."""
    scales: Scales | None = None
    """The pinned scales of numeric attributes, computed at first use."""


def restore_top(k: int, hits: Sequence[tuple[int, str, float]]) -> TopK[EventKey]:
    """The best hits from stored (ts, event ID, score), best first."""
    top: TopK[EventKey] = TopK(k)
    top.hits = [RankedHit((ts, eid), score) for ts, eid, score in hits]
    return top
