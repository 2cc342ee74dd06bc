"""What flows over links."""

import pytest

from moirae.network import Link, Measurements, measure
from sql.reports import FlowRow
from tests.unit.moirae.network.test_graph import make_graph

FLOWS = [
    FlowRow("stream", "cpu", rows=3_000, bytes=2_000),
    FlowRow("rule", "g0/Rule0", rows=30, seconds=6.0, bytes=500),
    FlowRow("recall", "g0/Rule0/before", rows=600, results=60, seconds=3.0),
]
MEASURED = Measurements(
    flows={(flow.kind, flow.name): flow for flow in FLOWS},
    seconds=300.0,
    settled={"g0/Rule0": 5_000_000},
    newest={"cpu": 7_000_000},
    oldest_recalls={"g0/Rule0/before": 4.0},
)


def test_rule_behind_a_stream_has_all_figures() -> None:
    flow = measure(make_graph(), MEASURED).flows[Link("stream:cpu", "rule:g0/Rule0")]
    assert (flow.rows, flow.results, flow.selectivity) == (10.0, 0.1, 0.01)
    assert flow.cost == 0.02
    assert flow.memory == 2_000 // 2 + 500  # the rule and the derived stream share the rows
    assert flow.lag == 2.0


def test_recall_has_what_it_reads_of_history() -> None:
    flows = measure(make_graph(), MEASURED).flows
    read = flows[Link("stream:cpu", "recall:g0/Rule0/before")]
    assert (read.rows, read.cost, read.lag) == (2.0, 0.01, None)
    assert read.selectivity == pytest.approx(0.1)
    asked = flows[Link("rule:g0/Rule0", "recall:g0/Rule0/before")]
    assert (asked.rows, asked.lag, asked.cost) == (0.1, 4.0, None)


def test_what_is_not_counted_is_none() -> None:
    flow = measure(make_graph(), MEASURED).flows[Link("derived:g0/load_0", "rule:g0/Rule1")]
    assert (flow.rows, flow.selectivity, flow.lag) == (None, None, None)
