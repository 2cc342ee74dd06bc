"""A network with its groups as single nodes. No I/O."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from moirae.network.figures import Flow, Network
from moirae.network.graph import GraphNode, Link

_MAX_SHOWN = 40  # nodes of groups that are opened unasked


def choose_expanded(network: Network) -> frozenset[str]:
    """The groups that are opened unasked: all or none."""
    grouped = [node for node in network.nodes.values() if node.group]
    if len(grouped) > _MAX_SHOWN:
        return frozenset()
    return frozenset(node.group for node in grouped)


def collapse(network: Network, expanded: Collection[str]) -> Network:
    """The network in which each group is one node, except for some.

    What flows over several links at once is added up: rows of a source and results of a target count
    once. The lag is the longest.
    """
    nodes: dict[str, GraphNode] = {}
    shown_ids: dict[str, str] = {}
    sizes: dict[str, Counter[str]] = {}
    for node_id, node in network.nodes.items():
        shown = node
        if node.group and node.group not in expanded:
            shown = GraphNode("group", node.group, node.group)
            sizes.setdefault(shown.id, Counter())[node.kind] += 1
        nodes[shown.id] = shown
        shown_ids[node_id] = shown.id
    merged: dict[Link, list[Link]] = {}
    for link in network.flows:
        shown_link = Link(shown_ids[link.source], shown_ids[link.target])
        if shown_link.source != shown_link.target:
            merged.setdefault(shown_link, []).append(link)
    flows = {link: _merge(links, network.flows) for link, links in merged.items()}
    return Network(nodes, flows, sizes)


def _merge(links: Iterable[Link], flows: Mapping[Link, Flow]) -> Flow:
    rows: dict[str, float] = {}
    results: dict[str, float] = {}
    for link in links:
        flow = flows[link]
        if flow.rows is not None:
            rows[link.source] = max(flow.rows, rows.get(link.source, 0.0))
        if flow.results is not None:
            results[link.target] = flow.results
    costs = [flow.cost for flow in map(flows.__getitem__, links) if flow.cost is not None]
    memory = [flow.memory for flow in map(flows.__getitem__, links) if flow.memory is not None]
    lags = [flow.lag for flow in map(flows.__getitem__, links) if flow.lag is not None]
    return Flow(
        rows=sum(rows.values()) if rows else None,
        results=sum(results.values()) if results else None,
        cost=sum(costs) if costs else None,
        memory=sum(memory) if memory else None,
        lag=max(lags, default=None),
    )
