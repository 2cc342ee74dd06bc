"""Metrics of processes, stored as JSON and exposed together."""

import orjson
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from moirae.runtime.metrics import merge_metrics, snapshot_metrics


class _Families(CollectorRegistry):
    """Collects given families."""

    def __init__(self, families: list) -> None:  # type: ignore[type-arg]
        super().__init__()
        self._families = families

    def collect(self):  # type: ignore[no-untyped-def]
        return iter(self._families)


def _make_registry(count: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("moirae_things", "Things.", ["kind"], registry=registry).labels("a").inc(count)
    Histogram("moirae_wait_seconds", "Wait.", buckets=(1, 2), registry=registry).observe(1.5)
    return registry


def test_metrics_of_processes_are_told_apart_by_a_label() -> None:
    stored = {
        role: orjson.loads(orjson.dumps(snapshot_metrics(_make_registry(count))))
        for role, count in (("live", 2), ("recall", 3))
    }
    text = generate_latest(_Families(list(merge_metrics(stored)))).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    things = {
        sample.labels["process"]: sample.value for sample in families["moirae_things"].samples
    }
    assert things == {"live": 2.0, "recall": 3.0}
    buckets = [
        (sample.labels["process"], sample.labels["le"], sample.value)
        for sample in families["moirae_wait_seconds"].samples
        if sample.name.endswith("_bucket")
    ]
    assert buckets[:3] == [("live", "1.0", 0.0), ("live", "2.0", 1.0), ("live", "+Inf", 1.0)]
