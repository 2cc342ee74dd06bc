"""Similar alerts among alerts with ready contexts, in time order (Moirae, CIDR 2007, §3.5).

Used for files of alerts and for evaluation, where contexts are known beforehand. No I/O.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from archiver.times import Micros, duration_to_micros
from recall.similarity import TopK
from recall.similarity.measures import ContextVector, Corpus, CorpusCounts, Measure, SparseRows

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AlertContext:
    """An alert with its context."""

    event_id: str
    event_type: str
    ts: Micros
    term_counts: Mapping[str, int]
    """How often the context contains each term."""
    group: str | None = None
    """Alerts of one group, such as an incident, are never hits of each other."""
    location: str | None = None
    """Where the alert occurred, such as a host."""


@dataclass(frozen=True, slots=True)
class SimilarAlerts:
    """The past alerts most similar to one alert, best first, with their scores."""

    query: AlertContext
    hits: list[tuple[AlertContext, float]]


def rank_similar(
    alerts: Iterable[AlertContext],
    gap: timedelta,
    k: int,
    measure: "Measure | Ranker",
    leave_one_out: bool = False,
) -> Iterator[tuple[str, int, str, float]]:
    """Rows (query, rank, event, score) for each alert, in time order. Ranks begin at 1."""
    for answer in find_similar(alerts, gap, k, measure, leave_one_out):
        for rank, (past, score) in enumerate(answer.hits, start=1):
            yield answer.query.event_id, rank, past.event_id, score


def find_similar(
    alerts: Iterable[AlertContext],
    gap: timedelta,
    k: int,
    measure: "Measure | Ranker",
    leave_one_out: bool = False,
    event_ids: Container[str] | None = None,
) -> Iterator[SimilarAlerts]:
    """The k best hits of each alert, in time order. For candidates see `iter_candidate_sets`."""
    ranker = measure if callable(measure) else rank_by(measure)
    for candidate_set in iter_candidate_sets(alerts, gap, leave_one_out, event_ids):
        yield candidate_set.rank(ranker, k)


def iter_candidate_sets(
    alerts: Iterable[AlertContext],
    gap: timedelta,
    leave_one_out: bool = False,
    event_ids: Container[str] | None = None,
) -> Iterator["CandidateSet"]:
    """The candidates of each alert, in time order; alerts of equal time keep their order.

    Candidates are the alerts of the same type that are older by `gap` at least. E and C_k count the
    alerts up to and including the query. With `leave_one_out`, candidates are all other alerts of
    the type, E and C_k count all of them, and `gap` is ignored.

    `event_ids`: only for these alerts; None: for all. A candidate set is valid until the next one
    is requested.
    """
    ordered = sorted(alerts, key=lambda alert: alert.ts)
    if leave_one_out:
        candidate_sets = _iter_leave_one_out(ordered)
    else:
        candidate_sets = _iter_older(ordered, duration_to_micros(gap))
    for candidate_set in candidate_sets:
        if event_ids is None or candidate_set.alert.event_id in event_ids:
            yield candidate_set


@dataclass(slots=True)
class _TypeHistory:
    """The alerts of one type so far, oldest first."""

    corpus: Corpus = field(default_factory=Corpus)
    alerts: list[AlertContext] = field(default_factory=list)
    rows_by_group: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, alert: AlertContext) -> ContextVector:
        if alert.group is not None:
            self.rows_by_group[alert.group].append(len(self.alerts))
        self.alerts.append(alert)
        return self.corpus.add(alert.ts, alert.term_counts)

    def group_rows(self, alert: AlertContext) -> list[int]:
        """The rows of the alert's group; empty without a group."""
        if alert.group is None:
            return []
        return self.rows_by_group[alert.group]


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """An alert, and the past alerts of its type that may be its hits."""

    alert: AlertContext
    context: ContextVector
    history: _TypeHistory
    candidate_count: int
    """The candidates are this many of the oldest alerts of the type, except `excluded_rows`."""
    excluded_rows: list[int]
    pinned_counts: CorpusCounts | None = None
    """E and C_k; None: as they are when they are used."""

    @property
    def candidates(self) -> list[AlertContext]:
        """The candidates, oldest first, by row. Includes the excluded rows."""
        return self.history.alerts[: self.candidate_count]

    @property
    def contexts(self) -> SparseRows:
        """The contexts of `candidates`."""
        return self.history.corpus.contexts.oldest_rows(self.candidate_count)

    @property
    def counts(self) -> CorpusCounts:
        return self.pinned_counts or self.history.corpus.counts()

    def rank(self, ranker: "Ranker", k: int) -> SimilarAlerts:
        """The k candidates with the highest scores above 0."""
        top: TopK[int] = TopK(k)
        if self.candidate_count:
            scores = ranker(self)
            scores[self.excluded_rows] = 0
            top.add(range(self.candidate_count), scores)
        hits = [(self.history.alerts[hit.event], hit.score) for hit in top.hits]
        return SimilarAlerts(self.alert, hits)


# Returns a score for each of `CandidateSet.candidates`.
Ranker = Callable[[CandidateSet], Floats]


def rank_by(measure: Measure) -> Ranker:
    """A ranker that scores contexts by a measure."""

    def score_candidates(candidate_set: CandidateSet) -> Floats:
        return measure.score_rows(
            candidate_set.context, candidate_set.contexts, candidate_set.counts
        )

    return score_candidates


def _iter_older(ordered: list[AlertContext], gap: Micros) -> Iterator[CandidateSet]:
    histories: dict[str, _TypeHistory] = defaultdict(_TypeHistory)
    for alert in ordered:
        history = histories[alert.event_type]
        context = history.add(alert)
        times = history.corpus.times
        if gap:
            candidate_count = bisect_right(times, alert.ts - gap)
        else:
            candidate_count = bisect_left(times, alert.ts)
        excluded_rows = [row for row in history.group_rows(alert) if row < candidate_count]
        yield CandidateSet(alert, context, history, candidate_count, excluded_rows)


def _iter_leave_one_out(ordered: list[AlertContext]) -> Iterator[CandidateSet]:
    histories: dict[str, _TypeHistory] = defaultdict(_TypeHistory)
    added_rows = []
    for alert in ordered:
        history = histories[alert.event_type]
        row = len(history.alerts)
        added_rows.append((alert, row, history.add(alert)))
    counts = {event_type: history.corpus.counts() for event_type, history in histories.items()}
    for alert, row, context in added_rows:
        history = histories[alert.event_type]
        excluded_rows = [row, *history.group_rows(alert)]
        yield CandidateSet(
            alert,
            context,
            history,
            candidate_count=len(history.alerts),
            excluded_rows=excluded_rows,
            pinned_counts=counts[alert.event_type],
        )
