"""The workspace as a graph: what flows from streams through rules to recalls and stages."""

from moirae.network.figures import Flow, Measurements, Network, measure
from moirae.network.graph import Graph, GraphNode, Link, NodeKind, build_graph
from moirae.network.groups import choose_expanded, collapse

__all__ = [
    "Flow",
    "Graph",
    "Link",
    "Measurements",
    "Network",
    "GraphNode",
    "NodeKind",
    "build_graph",
    "choose_expanded",
    "collapse",
    "measure",
]
