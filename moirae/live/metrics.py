"""Metrics of the live process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

_MAX_RULE_SERIES = 200

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True)
class BatchFigures:
    """A batch that was ingested. `engine`: which archived its rows, in so many seconds in all.

    `latencies`: seconds since the arrival of each of its posted batches.
    """

    engine: str
    rows: int
    seconds: float
    latencies: Sequence[float] = ()


class LiveMetrics:
    """Counters and histograms since the start of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._batches = Counter(
            "moirae_live_batches",
            "Batches ingested, by the engine that archived them.",
            ["engine"],
            registry=self.registry,
        )
        self._rows = Counter(
            "moirae_live_rows", "Rows archived.", ["engine"], registry=self.registry
        )
        self._last_rows = Gauge(
            "moirae_live_batch_rows", "Rows archived by the last batch.", registry=self.registry
        )
        self._batch_seconds = Histogram(
            "moirae_live_batch_seconds",
            "Time from the start of a batch until its events and alerts are stored.",
            ["engine"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._latency = Histogram(
            "moirae_live_latency_seconds",
            "Time from the arrival of a posted batch until its events and alerts are stored.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._rule_seconds = _RuleSeconds()
        self.registry.register(self._rule_seconds)

    def record_batch(self, batch: BatchFigures) -> None:
        """Count a batch."""
        self._batches.labels(batch.engine).inc()
        self._rows.labels(batch.engine).inc(batch.rows)
        self._last_rows.set(batch.rows)
        self._batch_seconds.labels(batch.engine).observe(batch.seconds)
        for latency in batch.latencies:
            self._latency.observe(max(latency, 0.0))

    def record_evaluation(self, seconds: Mapping[str, float]) -> None:
        """Add the time that an evaluation took to its rules."""
        self._rule_seconds.add(seconds)


class _RuleSeconds(Collector):
    """The time of each rule, of which the largest have series: thousands would be too many."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def add(self, seconds: Mapping[str, float]) -> None:
        for rule, spent in seconds.items():
            self._seconds[rule] = self._seconds.get(rule, 0.0) + spent

    def collect(self) -> Iterator[Metric]:
        by_rule = CounterMetricFamily(
            "moirae_rule_evaluation_seconds",
            "Time spent evaluating a rule; what rules share is divided by candidate rows. "
            f"The {_MAX_RULE_SERIES} rules with most of it.",
            labels=["rule"],
        )
        seconds = dict(self._seconds)  # another thread may add meanwhile
        for rule in nlargest(_MAX_RULE_SERIES, seconds, key=seconds.__getitem__):
            by_rule.add_metric([rule], seconds[rule])
        yield by_rule
        yield CounterMetricFamily(
            "moirae_rules_evaluation_seconds",
            "Time spent evaluating all rules.",
            sum(seconds.values()),
        )
