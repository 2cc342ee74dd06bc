"""Metrics of a recall process."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from archiver.clock import utc_now
from recall.ledger import Task

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class RecallMetrics:
    """Counters and histograms since the start of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._first_answers = Histogram(
            "moirae_recall_first_answer_seconds",
            "Time from the request of a recall to its first answer.",
            ["rule"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._completions = Histogram(
            "moirae_recall_completion_seconds",
            "Time from the request of a recall to its end.",
            ["rule"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._revisions = Counter(
            "moirae_recall_revisions", "Answers stored.", ["rule"], registry=self.registry
        )
        self._query_seconds = Counter(
            "moirae_recall_query_seconds",
            "Time spent in history queries.",
            ["rule"],
            registry=self.registry,
        )

    def record_revision(self, task: Task, number: int) -> None:
        """Count an answer."""
        self._revisions.labels(task.spec.rule).inc()
        if number == 1:
            self._first_answers.labels(task.spec.rule).observe(_age(task))

    def record_query(self, task: Task, seconds: float) -> None:
        """Add the time of a history query."""
        self._query_seconds.labels(task.spec.rule).inc(seconds)

    def record_end(self, task: Task) -> None:
        """Count a recall that has ended."""
        self._completions.labels(task.spec.rule).observe(_age(task))


def _age(task: Task) -> float:
    """Seconds since the request of a recall."""
    return max((utc_now() - task.spec.created_at).total_seconds(), 0.0)
