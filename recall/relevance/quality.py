"""Quality of answers on judged alerts: metrics by ranker, with confidence intervals. No I/O.

P@k is the share of the first k hits that are relevant (of k, also if there are fewer hits). nDCG@10
uses the gain 2^g - 1 (Järvelin, Kekäläinen, TOIS 2002; Burges et al., ICML 2005). MRR@10 is 1 / the
rank of the first relevant hit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise, starmap

import numpy as np
import numpy.typing as npt

from archiver.times import Micros, from_micros
from recall.relevance.rankers import AlertContext, CandidateSet, Floats, Ranker, iter_candidate_sets

# The relevance grade of past events, by event ID: 1 or more. Events without one are not relevant.
Gains = Mapping[str, int]

METRICS = ("p1", "p5", "p10", "ndcg10", "mrr10")
_P10 = METRICS.index("p10")
_PRECISIONS = {"p1": 1, "p5": 5, "p10": 10}  # P@k by the name of the metric
_MAX_RANK = 10  # hits that are evaluated for each query
_RESAMPLES = 1000  # bootstrap samples
_CONFIDENCE_PERCENTILES = (2.5, 97.5)
_MAX_PERIODS = 8
_MIN_PERIOD_QUERIES = 10
# Numbers of known tags at which a stage of learning begins.
_STAGES = (0, 10, 50, 200, 1000)


@dataclass(frozen=True)
class MetricEstimate:
    """The mean of a metric over queries, with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationPeriod:
    """The queries of a span of time, from the first to the last.

    `p10`: the mean P@10 by ranker.
    """

    first_ts: Micros
    last_ts: Micros
    queries: int
    p10: dict[str, float]


@dataclass(frozen=True)
class LearningStage:
    """The queries with so many known tags, from `low` to below `high` (None: no limit).

    `p10`: the mean P@10 by ranker, with its interval.
    """

    low: int
    high: int | None
    queries: int
    p10: dict[str, MetricEstimate]


@dataclass
class Evaluation:
    """The metrics of each ranker at each judged query, in time order."""

    queries: list[AlertContext] = field(default_factory=list)
    values: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    """By ranker: for each query, the values of `METRICS`."""
    candidates: list[int] = field(default_factory=list)
    """The number of candidates of each query."""
    resolutions: list[int] = field(default_factory=list)
    """How many tags were known at each query; empty: not counted."""
    relevant: list[int] = field(default_factory=list)
    """How many candidates of each query are relevant."""
    episodes: Mapping[str, int] = field(default_factory=dict)
    """The episode of each query by event ID: queries of one are not independent."""

    @property
    def episode_count(self) -> int:
        """Of how many episodes the queries are."""
        return len(np.unique(self._query_groups(np.arange(len(self.queries)))))

    def ceilings(self) -> dict[str, float]:
        """The largest possible mean of each metric: P@k of a query with n relevant candidates is
        at most n / k.
        """
        relevant = np.array(self.relevant)
        ceilings = dict.fromkeys(METRICS, 1.0)
        for name, k in _PRECISIONS.items():
            ceilings[name] = float(np.minimum(relevant / k, 1).mean())
        return ceilings

    def estimates(self) -> dict[str, dict[str, MetricEstimate]]:
        """By ranker and metric.

        Intervals are bootstrapped over episodes, because the queries of one are not independent;
        where these are not known, over days.
        """
        return self._estimates(np.arange(len(self.queries)))

    def differences(self, ranker: str, other: str) -> dict[str, MetricEstimate]:
        """By metric: how much better a ranker is than another one, query by query."""
        rows = np.arange(len(self.queries))
        groups = np.unique(self._query_groups(rows), return_inverse=True)[1]
        differences = np.array(self.values[ranker]) - np.array(self.values[other])
        intervals = bootstrap_intervals(differences.reshape(-1, len(METRICS)), groups)
        return dict(zip(METRICS, intervals, strict=True))

    def _estimates(self, rows: npt.NDArray[np.intp]) -> dict[str, dict[str, MetricEstimate]]:
        """`rows`: the queries that count."""
        groups = np.unique(self._query_groups(rows), return_inverse=True)[1]
        estimates = {}
        for name, values in self.values.items():
            intervals = bootstrap_intervals(
                np.array(values).reshape(-1, len(METRICS))[rows], groups
            )
            estimates[name] = dict(zip(METRICS, intervals, strict=True))
        return estimates

    def _query_groups(self, rows: npt.NDArray[np.intp]) -> list[int]:
        """By query, the number of its episode, or of its day."""
        groups = []
        for row in rows.tolist():
            query = self.queries[row]
            day = from_micros(query.ts).date().toordinal()
            groups.append(self.episodes.get(query.event_id, -day))
        return groups

    def learning_stages(self) -> list[LearningStage]:
        """P@10 by the number of known tags, without empty stages."""
        resolutions = np.array(self.resolutions)
        stages = []
        for low, high in pairwise((*_STAGES, None)):
            assert low is not None
            in_stage = resolutions >= low
            if high is not None:
                in_stage &= resolutions < high
            rows = np.flatnonzero(in_stage)
            if not len(rows):
                continue
            p10 = {}
            for name, estimates in self._estimates(rows).items():
                p10[name] = estimates["p10"]
            stages.append(LearningStage(low, high, len(rows), p10))
        return stages

    def periods(self) -> list[EvaluationPeriod]:
        """The queries in parts of about equal size, oldest first; empty without queries."""
        if not self.queries:
            return []
        period_count = max(1, min(_MAX_PERIODS, len(self.queries) // _MIN_PERIOD_QUERIES))
        p10 = {}
        for name, rows in self.values.items():
            p10[name] = np.array([row[_P10] for row in rows])
        periods = []
        for part in np.array_split(np.arange(len(self.queries)), period_count):
            period = EvaluationPeriod(
                first_ts=self.queries[part[0]].ts,
                last_ts=self.queries[part[-1]].ts,
                queries=len(part),
                p10={name: float(np.mean(values[part])) for name, values in p10.items()},
            )
            periods.append(period)
        return periods


def evaluate(
    alerts: Sequence[AlertContext],
    gains_of: Callable[[CandidateSet], Gains],
    rankers: Mapping[str, Ranker],
    gap: timedelta,
    leave_one_out: bool = False,
    observe: Callable[[Iterable[CandidateSet]], Iterable[CandidateSet]] = iter,
    count_resolutions: Callable[[CandidateSet], int] | None = None,
) -> Evaluation:
    """Rank the candidates of each judged alert by each ranker.

    `gains_of`: the gains of an alert's candidates; an alert without any is not judged. `gap` and
    `leave_one_out`: see `iter_candidate_sets`. `observe`: passes the candidate sets on unchanged,
    for example to show progress. `count_resolutions`: how many tags are known for a query.
    """
    evaluation = Evaluation(values={name: [] for name in rankers})
    for candidate_set in observe(iter_candidate_sets(alerts, gap, leave_one_out)):
        gains = gains_of(candidate_set)
        if not gains:
            continue
        ideal_gains = sorted(gains.values(), reverse=True)[:_MAX_RANK]
        candidate_count = candidate_set.candidate_count - len(candidate_set.excluded_rows)
        evaluation.queries.append(candidate_set.alert)
        evaluation.candidates.append(candidate_count)
        evaluation.relevant.append(len(gains))
        if count_resolutions is not None:
            evaluation.resolutions.append(count_resolutions(candidate_set))
        for name, ranker in rankers.items():
            hits = candidate_set.rank(ranker, _MAX_RANK).hits
            hit_gains = [gains.get(past.event_id, 0) for past, _ in hits]
            evaluation.values[name].append(compute_metrics(hit_gains, ideal_gains))
    return evaluation


def compute_metrics(gains: Sequence[int], ideal_gains: Sequence[int]) -> tuple[float, ...]:
    """The values of `METRICS`.

    `gains`: of the hits, best first, 0 if not relevant. `ideal_gains`: of the best possible answer.
    """
    relevant = np.array(gains[:_MAX_RANK]) > 0
    reciprocal_rank = 0.0
    if relevant.any():
        reciprocal_rank = 1 / (int(np.argmax(relevant)) + 1)
    return (
        int(np.count_nonzero(relevant[:1])) / 1,
        int(np.count_nonzero(relevant[:5])) / 5,
        int(np.count_nonzero(relevant)) / 10,
        _discounted_gain(gains[:_MAX_RANK]) / _discounted_gain(ideal_gains),
        reciprocal_rank,
    )


def _discounted_gain(gains: Sequence[int]) -> float:
    total = 0.0
    for rank, gain in enumerate(gains, start=1):
        total += (2.0**gain - 1) / np.log2(rank + 1)
    return float(total)


def bootstrap_intervals(values: Floats, groups: npt.NDArray[np.intp]) -> list[MetricEstimate]:
    """The mean of each column, with its 95 % interval by resampling the groups.

    `groups`: the group of each row, numbered from 0.
    """
    group_count = int(groups.max(initial=-1)) + 1
    if not group_count:
        return [MetricEstimate(float("nan"), float("nan"), float("nan"))] * values.shape[1]
    sums = np.zeros((group_count, values.shape[1]))
    np.add.at(sums, groups, values)
    sizes = np.bincount(groups, minlength=group_count)
    samples = np.random.default_rng(0).integers(group_count, size=(_RESAMPLES, group_count))
    means = sums[samples].sum(axis=1) / sizes[samples].sum(axis=1)[:, None]
    lows, highs = np.percentile(means, _CONFIDENCE_PERCENTILES, axis=0)
    columns = np.stack([values.mean(axis=0), lows, highs], axis=1)
    return list(starmap(MetricEstimate, columns.tolist()))
