"""How good answers are: relevance judged, rankers beside each other, with intervals.

P@k is the share of the first k that are relevant (of k, also where fewer exist); nDCG@10 weighs gains and ranks with
gain 2^g - 1 (Järvelin, Kekäläinen, TOIS 2002; Burges et al., ICML 2005); MRR@10 is 1 / the rank of the first relevant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from archiver.times import from_micros
from recall.relevance.ready_contexts import AlertContext, CandidateSet, Ranker, iter_candidate_sets
from recall.similarity import Floats

# How much a past event helps with a query (1 or more), by event id; what is not there does not help.
Gains = Mapping[str, int]

K = 10
METRICS = ("p1", "p5", "p10", "ndcg10", "mrr10")
_RESAMPLES = 1000
# Parts of time that are shown one by one, and queries needed for each.
_MAX_PERIODS, _MIN_PERIOD_QUERIES = 8, 10


@dataclass(frozen=True)
class MetricEstimate:
    """A mean over queries with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationPeriod:
    """Queries of one span of time: from the first to the last, in microseconds, and the mean of each ranker."""

    first_ts: int
    last_ts: int
    queries: int
    p10: dict[str, float]


@dataclass
class Evaluation:
    """Each ranker's metrics at each judged query, in time order."""

    queries: list[AlertContext] = field(default_factory=list)
    values: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    candidates: list[int] = field(default_factory=list)

    def estimates(self) -> dict[str, dict[str, MetricEstimate]]:
        """By ranker and metric. Days are drawn again, not queries: those of one day are not independent."""
        days = np.unique(
            [from_micros(query.ts).date().toordinal() for query in self.queries],
            return_inverse=True,
        )[1]
        return {
            name: dict(zip(METRICS, _bootstrap_intervals(np.array(rows), days), strict=True))
            for name, rows in self.values.items()
        }

    def periods(self) -> list[EvaluationPeriod]:
        """The same queries in parts of about equal size, old to new."""
        number = max(1, min(_MAX_PERIODS, len(self.queries) // _MIN_PERIOD_QUERIES))
        parts = []
        for places in np.array_split(np.arange(len(self.queries)), number):
            first, last = self.queries[places[0]].ts, self.queries[places[-1]].ts
            p10 = {
                name: float(np.mean([rows[i][2] for i in places]))
                for name, rows in self.values.items()
            }
            parts.append(EvaluationPeriod(first, last, len(places), p10))
        return parts


def evaluate(
    alerts: Sequence[AlertContext],
    gains_of: Callable[[CandidateSet], Gains],
    rankers: Mapping[str, Ranker],
    gap: timedelta,
    leave_one_out: bool = False,
    observe: Callable[[Iterable[CandidateSet]], Iterable[CandidateSet]] = lambda found: found,
) -> Evaluation:
    """Rank the candidates of each judged query by each ranker. `gains_of`: which candidates of a question help, and
    how much; where none does, it is not judged. `watched`: looks on at what is asked."""
    found = Evaluation(values={name: [] for name in rankers})
    for question in observe(iter_candidate_sets(alerts, gap, leave_one_out)):
        gains = gains_of(question)
        if not gains:
            continue
        ideal = sorted(gains.values(), reverse=True)[:K]
        found.queries.append(question.alert)
        found.candidates.append(question.candidate_count - len(question.excluded_rows))
        for name, ranker in rankers.items():
            hits = [gains.get(past.event_id, 0) for past, _ in question.rank(ranker, K).hits]
            found.values[name].append(compute_metrics(hits, ideal))
    return found


def compute_metrics(gains: Sequence[int], ideal_gains: Sequence[int]) -> tuple[float, ...]:
    """`METRICS` of the gains of an answer, best first, beside those of the best answer there is."""
    at = [sum(gain > 0 for gain in gains[:k]) / k for k in (1, 5, 10)]
    first = next((rank for rank, gain in enumerate(gains[:K], start=1) if gain > 0), None)
    return (
        *at,
        _discounted_gain(gains[:K]) / _discounted_gain(ideal_gains),
        0.0 if first is None else 1 / first,
    )


def _discounted_gain(gains: Sequence[int]) -> float:
    return float(sum((2.0**gain - 1) / np.log2(place + 2) for place, gain in enumerate(gains)))


def _bootstrap_intervals(values: Floats, groups: npt.NDArray[np.intp]) -> list[MetricEstimate]:
    """The mean of each column, with percentiles of the means over groups drawn with replacement."""
    number = int(groups.max(initial=-1)) + 1
    if not number:
        return [MetricEstimate(float("nan"), float("nan"), float("nan")) for _ in METRICS]
    sums = np.zeros((number, values.shape[1]))
    np.add.at(sums, groups, values)
    sizes = np.bincount(groups, minlength=number)
    drawn = np.random.default_rng(0).integers(number, size=(_RESAMPLES, number))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)[:, None]
    lows, highs = np.percentile(means, [2.5, 97.5], axis=0)
    whole = values.mean(axis=0)
    return [
        MetricEstimate(float(v), float(low), float(high))
        for v, low, high in zip(whole, lows, highs, strict=True)
    ]
