"""Metrics of a recall process."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from recall.worker.metrics import RecallMetrics


def test_first_answers_and_ends_are_measured_from_the_request() -> None:
    requested_at = datetime.now(UTC) - timedelta(seconds=20)
    task: Any = SimpleNamespace(spec=SimpleNamespace(rule="g/r", created_at=requested_at))
    metrics = RecallMetrics()
    metrics.record_revision(task, 1)
    metrics.record_revision(task, 2)
    metrics.record_query(task, 1.5)
    metrics.record_end(task)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"rule": "g/r", **labels})

    assert value("moirae_recall_revisions_total") == 2
    assert value("moirae_recall_query_seconds_total") == 1.5
    assert value("moirae_recall_first_answer_seconds_count") == 1
    assert value("moirae_recall_completion_seconds_bucket", le="10.0") == 0
    assert value("moirae_recall_completion_seconds_bucket", le="30.0") == 1
