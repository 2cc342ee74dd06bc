"""Ready contexts through the similarity code, event by event as time went on (Moirae, CIDR 2007, §3.5)."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from archiver.times import span
from recall.similarity.corpus import Context, Corpus, Counts, Floats
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
    """An answer for each alert in time order; equal times stay as they came. `only` these ids are asked for.

    Online, candidates are older alerts of the type, by `gap` at least, and E and C_k count up to and including the
    alert. With `leave_one_out` candidates are all others of the type, and E and C_k count all: `gap` has no meaning.
    """
    ordered = sorted(alerts, key=lambda alert: alert.ts)
    walk = _all_others(ordered) if leave_one_out else _online(ordered, span(gap))
    for question in walk:
        if only is None or question.alert.event_id in only:
            yield _answer(question, k, measure)


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
class _Question:
    alert: Alert
    context: Context
    past: _Past
    candidates: int
    """The oldest so many,"""
    without: list[int]
    """less these."""
    counts: Counts | None = None
    """None: as they are when the question is asked."""


def _online(ordered: list[Alert], gap: int) -> Iterator[_Question]:
    types: dict[str, _Past] = defaultdict(_Past)
    for alert in ordered:
        past = types[alert.event_type]
        context = past.add(alert)
        times = past.corpus.times
        candidates = bisect_right(times, alert.ts - gap) if gap else bisect_left(times, alert.ts)
        yield _Question(alert, context, past, candidates, [row for row in past.group(alert) if row < candidates])


def _all_others(ordered: list[Alert]) -> Iterator[_Question]:
    types: dict[str, _Past] = defaultdict(_Past)
    added = []
    for alert in ordered:
        past = types[alert.event_type]
        added.append((alert, past, len(past.alerts), past.add(alert)))
    counts = {name: past.corpus.counts() for name, past in types.items()}
    for alert, past, row, context in added:
        without = [row, *past.group(alert)]
        yield _Question(alert, context, past, len(past.alerts), without, counts[alert.event_type])


def _answer(question: _Question, k: int, measure: Measure) -> Answer:
    past, count = question.past, question.candidates
    top: TopK[int] = TopK(k)
    if count:
        top.add(range(count), _scores(question, measure))
    return Answer(question.alert, [(past.alerts[hit.event], hit.score) for hit in top.hits])


def _scores(question: _Question, measure: Measure) -> Floats:
    corpus = question.past.corpus
    counts = question.counts or corpus.counts()
    scores = measure.scores(question.context, corpus.contexts.oldest(question.candidates), counts)
    scores[question.without] = 0
    return scores
