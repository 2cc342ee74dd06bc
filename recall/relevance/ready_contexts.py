"""Ready contexts through the similarity code, event by event as time went on (Moirae, CIDR 2007, §3.5)."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from archiver.times import duration_to_micros
from recall.similarity import ContextVector, Corpus, CorpusCounts, Floats, Measure, SparseRows, TopK


@dataclass(frozen=True, slots=True)
class AlertContext:
    """An event with its context: terms and how often each occurs. `ts` is in microseconds."""

    event_id: str
    event_type: str
    ts: int
    term_counts: Mapping[str, int]
    group: str | None = None
    """Alerts of one group, such as one incident, never answer each other."""
    location: str | None = None
    """Where it was, such as a host."""


@dataclass(frozen=True, slots=True)
class SimilarAlerts:
    """The past events most alike one alert, best first, with their scores."""

    query: AlertContext
    hits: list[tuple[AlertContext, float]]


def rank_similar(
    alerts: Iterable[AlertContext],
    gap: timedelta,
    k: int,
    measure: Measure,
    leave_one_out: bool = False,
) -> Iterator[tuple[str, int, str, float]]:
    """Rows (query, rank, event, score) for each alert, in time order; ranks count from 1."""
    for answer in find_similar(alerts, gap, k, measure, leave_one_out):
        for rank, (past, score) in enumerate(answer.hits, start=1):
            yield answer.query.event_id, rank, past.event_id, score


def find_similar(
    alerts: Iterable[AlertContext],
    gap: timedelta,
    k: int,
    measure: Measure,
    leave_one_out: bool = False,
    event_ids: Container[str] | None = None,
) -> Iterator[SimilarAlerts]:
    """An answer for each alert in time order, see `questions`."""
    ranker = rank_by(measure)
    for question in iter_candidate_sets(alerts, gap, leave_one_out, event_ids):
        yield question.rank(ranker, k)


def iter_candidate_sets(
    alerts: Iterable[AlertContext],
    gap: timedelta,
    leave_one_out: bool = False,
    event_ids: Container[str] | None = None,
) -> Iterator["CandidateSet"]:
    """A question for each alert in time order; equal times stay as they came. `only` these ids are asked for. A
    question is to be answered before the next one is taken.

    Online, candidates are older alerts of the type, by `gap` at least, and E and C_k count up to and including the
    alert. With `leave_one_out` candidates are all others of the type, and E and C_k count all: `gap` has no meaning.
    """
    ordered = sorted(alerts, key=lambda alert: alert.ts)
    walk = (
        _walk_leave_one_out(ordered)
        if leave_one_out
        else _walk_online(ordered, duration_to_micros(gap))
    )
    for question in walk:
        if event_ids is None or question.alert.event_id in event_ids:
            yield question


@dataclass(slots=True)
class _TypeHistory:
    """The alerts of one type so far."""

    corpus: Corpus = field(default_factory=Corpus)
    alerts: list[AlertContext] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, alert: AlertContext) -> ContextVector:
        if alert.group is not None:
            self.groups[alert.group].append(len(self.alerts))
        self.alerts.append(alert)
        return self.corpus.add(alert.ts, alert.term_counts)

    def group_rows(self, alert: AlertContext) -> list[int]:
        return [] if alert.group is None else self.groups[alert.group]


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """An alert, and the past alerts of its type that may answer it."""

    alert: AlertContext
    context: ContextVector
    history: _TypeHistory
    candidate_count: int
    """Candidates are the oldest so many alerts of the type,"""
    excluded_rows: list[int]
    """less these."""
    pinned_counts: CorpusCounts | None = None
    """E and C_k; None: as they are when the question is asked."""

    @property
    def candidates(self) -> list[AlertContext]:
        """Old to new, also those that are no candidates after all: their places count."""
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
        return SimilarAlerts(
            self.alert, [(self.history.alerts[hit.event], hit.score) for hit in top.hits]
        )


# A score for each of a question's `candidates`.
Ranker = Callable[[CandidateSet], Floats]


def rank_by(measure: Measure) -> Ranker:
    """Rank by how alike the contexts are."""
    return lambda question: measure.score_rows(question.context, question.contexts, question.counts)


def _walk_online(ordered: list[AlertContext], gap: int) -> Iterator[CandidateSet]:
    types: dict[str, _TypeHistory] = defaultdict(_TypeHistory)
    for alert in ordered:
        past = types[alert.event_type]
        context = past.add(alert)
        times = past.corpus.times
        candidates = bisect_right(times, alert.ts - gap) if gap else bisect_left(times, alert.ts)
        yield CandidateSet(
            alert,
            context,
            past,
            candidates,
            [row for row in past.group_rows(alert) if row < candidates],
        )


def _walk_leave_one_out(ordered: list[AlertContext]) -> Iterator[CandidateSet]:
    types: dict[str, _TypeHistory] = defaultdict(_TypeHistory)
    added = []
    for alert in ordered:
        past = types[alert.event_type]
        added.append((alert, past, len(past.alerts), past.add(alert)))
    counts = {name: past.corpus.counts() for name, past in types.items()}
    for alert, past, row, context in added:
        without = [row, *past.group_rows(alert)]
        yield CandidateSet(
            alert, context, past, len(past.alerts), without, counts[alert.event_type]
        )
