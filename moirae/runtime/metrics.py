"""Metrics of a process: stored with its heartbeat, exposed by the server."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

# Times of creation, which clients do not need.
_OMITTED_SUFFIX = "_created"

StoredMetrics = Sequence[Mapping[str, Any]]
"""Metric families as JSON values: name, type, help, and samples of name, labels and value."""


def snapshot_metrics(registry: CollectorRegistry) -> list[dict[str, Any]]:
    """The present values of all metrics."""
    families = []
    for family in registry.collect():
        samples = []
        for sample in family.samples:
            if not sample.name.endswith(_OMITTED_SUFFIX):
                samples.append([sample.name, sample.labels, sample.value])
        families.append(
            {
                "name": family.name,
                "type": family.type,
                "help": family.documentation,
                "samples": samples,
            }
        )
    return families


def merge_metrics(metrics_by_process: Mapping[str, StoredMetrics]) -> Iterator[Metric]:
    """The metrics of several processes, told apart by the label `process`."""
    merged: dict[str, Metric] = {}
    for process, families in metrics_by_process.items():
        for family in families:
            metric = merged.get(family["name"])
            if metric is None:
                metric = Metric(family["name"], family["help"], family["type"])
                merged[family["name"]] = metric
            if metric.type == family["type"]:
                _add_samples(metric, family["samples"], process)
    yield from merged.values()


def _add_samples(metric: Metric, samples: Iterable[Sequence[Any]], process: str) -> None:
    for name, labels, value in samples:
        metric.add_sample(name, {"process": process, **labels}, float(value))
