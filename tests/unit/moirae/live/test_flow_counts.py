"""Counts of batches until they are stored."""

import pytest

from archiver.ingest import IngestResult
from archiver.ingest.engines.batch import ArchivedRows
from moirae.evaluation import EventContexts, RuleCost
from moirae.live.flow_counts import FlowCounts
from sql.reports import FlowRow


def test_what_batches_have_added_is_taken_once() -> None:
    counts = FlowCounts()
    counts.add_rows(IngestResult({"cpu": ArchivedRows(3)}))
    counts.add_rows(IngestResult({"cpu": ArchivedRows(4)}))
    counts.add_events({"g/r": 2})
    contexts = EventContexts({"own": [{"a": 1}, {"a": 2}]}, {"near": []})
    counts.add_contexts([("g/r", contexts)], 4.0)
    assert counts.take({"g/r": RuleCost(0.5, 9, 9)}, {"cpu": 100, "net": 0}, {"g/r": 8}) == [
        FlowRow("context", "g/r/near", 0, seconds=pytest.approx(1.0)),
        FlowRow("context", "g/r/own", 2, seconds=pytest.approx(3.0)),
        FlowRow("rule", "g/r", 2, seconds=0.5, bytes=8),
        FlowRow("stream", "cpu", 7, bytes=100),
    ]
    assert counts.take({}, {"cpu": 0}, {}) == []
