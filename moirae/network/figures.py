"""What flows over the links of a graph, from counters of the last minutes. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moirae.network.graph import Graph, GraphNode, Link
from sql.reports import FlowKind, FlowRow

_MICROS_PER_SECOND = 1_000_000


class Measurements(NamedTuple):
    """What is known of the last minutes.

    `flows`: by kind and name, over `seconds`. `settled`, `newest`: event times in microseconds, by
    rule and by stream. `oldest_recalls`: seconds since the first open one was requested, by
    `RULE/RECALL`.
    """

    flows: Mapping[tuple[FlowKind, str], FlowRow]
    seconds: float
    settled: Mapping[str, int]
    newest: Mapping[str, int]
    oldest_recalls: Mapping[str, float]


@dataclass(frozen=True)
class Flow:
    """What flows over a link. None: it is not counted.

    `rows`, `results`: rows of its source, and of its target, in a second. `cost`: processor cores
    that the target spends on it. `memory`: bytes. `lag`: seconds.
    """

    rows: float | None = None
    results: float | None = None
    cost: float | None = None
    memory: int | None = None
    lag: float | None = None

    @property
    def selectivity(self) -> float | None:
        """Rows of the target for each row of the source."""
        if not self.rows or self.results is None:
            return None
        return self.results / self.rows


@dataclass(frozen=True)
class Network:
    """A graph with what flows over its links. `sizes`: nodes of each kind, by ID of their group."""

    nodes: Mapping[str, GraphNode]
    flows: Mapping[Link, Flow]
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def measure(graph: Graph, measured: Measurements) -> Network:
    """The flows of a graph."""
    incoming: dict[str, list[Link]] = {}
    outgoing: dict[str, list[Link]] = {}
    for link in graph.links:
        incoming.setdefault(link.target, []).append(link)
        outgoing.setdefault(link.source, []).append(link)
    memory = _share_memory(graph, outgoing, incoming, measured)
    costs = _share_costs(graph, incoming, measured)
    flows = {}
    for link in graph.links:
        source, target = graph.nodes[link.source], graph.nodes[link.target]
        flows[link] = Flow(
            rows=_count_rows(source, target, measured),
            results=_count_results(target, measured),
            cost=costs.get(link),
            memory=memory.get(link),
            lag=_find_lag(source, target, measured),
        )
    return Network(graph.nodes, flows)


def _rate(kind: FlowKind, name: str, measured: Measurements, results: bool = False) -> float:
    row = measured.flows.get((kind, name))
    if row is None:
        return 0.0
    return (row.results if results else row.rows) / measured.seconds


def _count_rows(source: GraphNode, target: GraphNode, measured: Measurements) -> float | None:
    """The rows of a source in a second, as its reader gets them."""
    if source.kind in ("stream", "derived") and target.kind in ("context", "recall"):
        # They read the past: a recall counts what it reads there, a context does not.
        return _rate("recall", target.name, measured) if target.kind == "recall" else None
    match source.kind:
        case "stream" | "rule" | "context":
            return _rate(source.kind, source.name, measured)
        case "recall" | "stage":
            return _rate("revisions", source.name, measured)
    return None


def _count_results(target: GraphNode, measured: Measurements) -> float | None:
    match target.kind:
        case "rule" | "context":
            return _rate(target.kind, target.name, measured)
        case "recall":
            return _rate("recall", target.name, measured, results=True)
        case "stage":
            return _rate("revisions", target.name, measured)
    return None


def _find_lag(source: GraphNode, target: GraphNode, measured: Measurements) -> float | None:
    """Of a rule behind a stream, in event time; of a recall behind its rule, in time of the clock."""
    if source.kind == "stream" and target.kind == "rule":
        newest, settled = measured.newest.get(source.name), measured.settled.get(target.name)
        if newest is None or settled is None:
            return None
        return max(0, newest - settled) / _MICROS_PER_SECOND
    if source.kind == "rule" and target.kind == "recall":
        return measured.oldest_recalls.get(target.name, 0.0)
    return None


def _share_costs(
    graph: Graph, incoming: Mapping[str, Sequence[Link]], measured: Measurements
) -> dict[Link, float]:
    """The cost of each reader, divided among what it reads by the rows of that."""
    costs: dict[Link, float] = {}
    for target_id, links in incoming.items():
        target = graph.nodes[target_id]
        if target.kind not in ("rule", "context", "recall"):
            continue
        row = measured.flows.get((target.kind, target.name))
        cost = 0.0 if row is None else row.seconds / measured.seconds
        read = _select_read(graph, target, links)
        rows = [_count_rows(graph.nodes[link.source], target, measured) for link in read]
        costs |= _divide(cost, read, rows)
    return costs


def _select_read(graph: Graph, target: GraphNode, links: Sequence[Link]) -> list[Link]:
    """The links from what a reader spends its time on: not relations, nor events, if there is more."""
    skipped = ("relation",) if target.kind == "rule" else ("relation", "rule")
    read = [link for link in links if graph.nodes[link.source].kind not in skipped]
    return read or list(links)


def _divide(
    total: float, links: Sequence[Link], weights: Iterable[float | None]
) -> dict[Link, float]:
    """Parts by weight; even ones if a weight is not known, or none is positive."""
    parts = [weight for weight in weights if weight is not None]
    if len(parts) < len(links) or not sum(parts):
        return dict.fromkeys(links, total / len(links))
    return {link: total * part / sum(parts) for link, part in zip(links, parts, strict=True)}


def _share_memory(
    graph: Graph,
    outgoing: Mapping[str, Sequence[Link]],
    incoming: Mapping[str, Sequence[Link]],
    measured: Measurements,
) -> dict[Link, int]:
    """Recent rows of streams, shared evenly by their readers; panes of rules, by what these read."""
    memory: dict[Link, int] = {}
    for (kind, name), row in measured.flows.items():
        node_id = f"{kind}:{name}"
        if kind == "stream":
            links = [
                link
                for link in outgoing.get(node_id, ())
                if graph.nodes[link.target].kind in ("rule", "context", "derived")
            ]
        elif kind == "rule" and node_id in incoming:
            links = _select_read(graph, graph.nodes[node_id], incoming[node_id])
        else:
            continue
        for link in links:
            memory[link] = memory.get(link, 0) + row.bytes // len(links)
    return memory
