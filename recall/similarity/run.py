"""Ready contexts through the similarity code, event by event as time went on (Moirae, CIDR 2007, §3.5)."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from archiver.times import span
from recall.similarity.corpus import Context, Corpus, Counts, Floats, Rows
from recall.similarity.measure import Measure
from recall.similarity.ranking import TopK


@dataclass(frozen=True, slots=True)
class Alert:
    """An event with its context: terms and how often each occurs. `ts` is in microseconds."""

    event_id: str
    event_type: str
    ts: int
    facts: Mapping[str, int]
    group: str | None = None
    """Alerts of one group, such as one incident, never answer each other."""
    place: str | None = None
    """Where it was, such as a host."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The past events most alike one alert, best first, with their scores."""

    query: Alert
    hits: list[tuple[Alert, float]]


def similar(
    alerts: Iterable[Alert], gap: timedelta, k: int, measure: Measure, leave_one_out: bool = False
) -> Iterator[tuple[str, int, str, float]]:
    """Rows (query, rank, event, score) for each alert, in time order; ranks count from 1."""
    for answer in answers(alerts, gap, k, measure, leave_one_out):
        for rank, (past, score) in enumerate(answer.hits, start=1):
            yield answer.query.event_id, rank, past.event_id, score


def answers(
    alerts: Iterable[Alert],
    gap: timedelta,
    k: int,
    measure: Measure,
    leave_one_out: bool = False,
    only: Container[str] | None = None,
) -> Iterator[Answer]:
    """An answer for each alert in time order, see `questions`."""
    ranker = by(measure)
    for question in questions(alerts, gap, leave_one_out, only):
        yield question.answer(ranker, k)


def questions(
    alerts: Iterable[Alert], gap: timedelta, leave_one_out: bool = False, only: Container[str] | None = None
) -> Iterator["Question"]:
    """A question for each alert in time order; equal times stay as they came. `only` these ids are asked for. A
    question is to be answered before the next one is taken.

    Online, candidates are older alerts of the type, by `gap` at least, and E and C_k count up to and including the
    alert. With `leave_one_out` candidates are all others of the type, and E and C_k count all: `gap` has no meaning.
    """
    ordered = sorted(alerts, key=lambda alert: alert.ts)
    walk = _all_others(ordered) if leave_one_out else _online(ordered, span(gap))
    for question in walk:
        if only is None or question.alert.event_id in only:
            yield question


@dataclass(slots=True)
class _Past:
    """The alerts of one type so far."""

    corpus: Corpus = field(default_factory=Corpus)
    alerts: list[Alert] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, alert: Alert) -> Context:
        if alert.group is not None:
            self.groups[alert.group].append(len(self.alerts))
        self.alerts.append(alert)
        return self.corpus.add(alert.ts, alert.facts)

    def group(self, alert: Alert) -> list[int]:
        return [] if alert.group is None else self.groups[alert.group]


@dataclass(frozen=True, slots=True)
class Question:
    """An alert, and the past alerts of its type that may answer it."""

    alert: Alert
    context: Context
    past: _Past
    size: int
    """Candidates are the oldest so many alerts of the type,"""
    without: list[int]
    """less these."""
    pinned: Counts | None = None
    """E and C_k; None: as they are when the question is asked."""

    @property
    def candidates(self) -> list[Alert]:
        """Old to new, also those that are no candidates after all: their places count."""
        return self.past.alerts[: self.size]

    @property
    def contexts(self) -> Rows:
        """The contexts of `candidates`."""
        return self.past.corpus.contexts.oldest(self.size)

    @property
    def counts(self) -> Counts:
        return self.pinned or self.past.corpus.counts()

    def answer(self, ranker: "Ranker", k: int) -> Answer:
        """The k candidates with the highest scores above 0."""
        top: TopK[int] = TopK(k)
        if self.size:
            scores = ranker(self)
            scores[self.without] = 0
            top.add(range(self.size), scores)
        return Answer(self.alert, [(self.past.alerts[hit.event], hit.score) for hit in top.hits])


# A score for each of a question's `candidates`.
Ranker = Callable[[Question], Floats]


def by(measure: Measure) -> Ranker:
    """Rank by how alike the contexts are."""
    return lambda question: measure.scores(question.context, question.contexts, question.counts)


def _online(ordered: list[Alert], gap: int) -> Iterator[Question]:
    types: dict[str, _Past] = defaultdict(_Past)
    for alert in ordered:
        past = types[alert.event_type]
        context = past.add(alert)
        times = past.corpus.times
        candidates = bisect_right(times, alert.ts - gap) if gap else bisect_left(times, alert.ts)
        yield Question(alert, context, past, candidates, [row for row in past.group(alert) if row < candidates])


def _all_others(ordered: list[Alert]) -> Iterator[Question]:
    types: dict[str, _Past] = defaultdict(_Past)
    added = []
    for alert in ordered:
        past = types[alert.event_type]
        added.append((alert, past, len(past.alerts), past.add(alert)))
    counts = {name: past.corpus.counts() for name, past in types.items()}
    for alert, past, row, context in added:
        without = [row, *past.group(alert)]
        yield Question(alert, context, past, len(past.alerts), without, counts[alert.event_type])
