"""Groups as single nodes."""

from moirae.network import Link, choose_expanded, collapse, measure
from tests.unit.moirae.network.test_figures import MEASURED
from tests.unit.moirae.network.test_graph import make_graph


def test_group_is_one_node_with_the_sums_of_its_links() -> None:
    network = measure(make_graph(), MEASURED)
    collapsed = collapse(network, ())
    assert collapsed.sizes == {"group:g0": {"rule": 2, "context": 2, "recall": 4, "derived": 1}}
    flow = collapsed.flows[Link("stream:cpu", "group:g0")]
    assert flow.rows == 10.0  # the same rows for all rules
    assert flow.cost == sum(
        other.cost or 0.0 for link, other in network.flows.items() if link.source == "stream:cpu"
    )
    assert flow.lag == 2.0
    assert not any("rule" in link.target for link in collapsed.flows)


def test_expanded_group_keeps_its_nodes() -> None:
    network = measure(make_graph(4, group_size=2), MEASURED)
    shown = collapse(network, {"g1"})
    assert "group:g0" in shown.nodes and "group:g1" not in shown.nodes
    assert "rule:g1/Rule2" in shown.nodes and "rule:g0/Rule0" not in shown.nodes


def test_many_rules_open_collapsed() -> None:
    assert choose_expanded(measure(make_graph(2), MEASURED)) == {"g0"}
    assert choose_expanded(measure(make_graph(60), MEASURED)) == frozenset()
