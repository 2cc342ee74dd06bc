"""Streams, rules and what follows from their events, as nodes, and what reads what, as links. No I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from moirae.rules import ALERTS, Definition, SimilarRecall, list_table_reads

NodeKind = Literal[
    "stream", "relation", "derived", "alerts", "rule", "context", "recall", "stage", "group"
]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A part of the network. `id`: `kind:name`. `group`: of its rule or derived stream; "": none."""

    kind: NodeKind
    name: str
    group: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"


ALERTS_NODE = GraphNode("alerts", ALERTS)  # all alerts with their changes of state


@dataclass(frozen=True, slots=True)
class Link:
    """One node reads another, both by ID."""

    source: str
    target: str


@dataclass
class Graph:
    """Nodes by ID, and links in the order in which they were found, each once."""

    nodes: dict[str, GraphNode] = field(default_factory=dict)
    links: dict[Link, None] = field(default_factory=dict)

    def add_node(self, node: GraphNode) -> str:
        """Add a node, unless it is there; returns its ID."""
        return self.nodes.setdefault(node.id, node).id

    def add_link(self, source: GraphNode, target: GraphNode) -> None:
        """Add two nodes and a link."""
        self.links[Link(self.add_node(source), self.add_node(target))] = None


def build_graph(
    definitions: Iterable[Definition], streams: Collection[str], relations: Collection[str]
) -> Graph:
    """The graph of some rules with the declared streams and relations, read or not."""
    graph = Graph()
    names = {name.lower(): GraphNode("relation", name) for name in relations}
    names |= {name.lower(): GraphNode("stream", name) for name in streams}
    for node in names.values():
        graph.add_node(node)
    for definition in definitions:
        _RuleLinks(graph, names, definition).add()
    _join_outputs(graph)
    _link_alerts(graph)
    return graph


class _RuleLinks:
    """Adds a rule to a graph."""

    def __init__(
        self, graph: Graph, names: Mapping[str, GraphNode], definition: Definition
    ) -> None:
        """`names`: the declared streams and relations in lower case."""
        self._graph = graph
        self._definition = definition
        self._node = _make_node("rule", definition.name)
        self._reads = list_table_reads(definition.rule)
        self._tables = self._name_tables(names)
        self._parts = self._name_parts()

    def _name_tables(self, names: Mapping[str, GraphNode]) -> dict[str, GraphNode]:
        """What a name in a query of the rule stands for."""
        rule = self._definition.rule
        tables = {ALERTS: ALERTS_NODE, **names}
        for query in rule.derived:
            name = f"{query.group}/{query.stream}"
            tables[query.stream.lower()] = GraphNode("derived", name, query.group)
        for events in rule.event_streams:
            if events.rule:
                tables[events.name.lower()] = _make_node("rule", events.rule)
            else:  # a derived stream of another group
                tables.setdefault(events.name.lower(), GraphNode("derived", events.name))
        for revisions in rule.revision_streams:
            if revisions.is_of_recall:
                # Whether of a recall or a stage, its own rule tells: see `_join_outputs`.
                output = _make_node("recall", f"{revisions.rule}/{revisions.output}")
                tables[revisions.name.lower()] = output
            elif not revisions.rules:
                tables[revisions.name.lower()] = _make_node("rule", revisions.rule)
        return tables

    def _name_parts(self) -> dict[str, GraphNode]:
        """The contexts, recalls and stages of the rule, as its queries name them."""
        spec = self._definition.spec
        kinds: dict[str, NodeKind] = dict.fromkeys((*spec.context, *spec.surroundings), "context")
        kinds |= dict.fromkeys(spec.recall, "recall")
        kinds |= dict.fromkeys((stage.stream for stage in spec.then), "stage")
        name = self._definition.name
        return {part: _make_node(kind, f"{name}/{part}") for part, kind in kinds.items()}

    def add(self) -> None:
        graph, spec = self._graph, self._definition.spec
        graph.add_node(self._node)
        self._link(self._reads.event, self._node)
        for name, part in self._parts.items():
            if part.kind != "stage":
                graph.add_link(self._node, part)
            self._link(self._reads.parts.get(name, ()), part, self._parts)
        for name, recall in spec.recall.items():
            if isinstance(recall, SimilarRecall):
                for context in recall.similar.contexts or spec.context:
                    graph.add_link(self._parts[context], self._parts[name])
        for name, tables in self._reads.derived.items():
            self._link(tables, self._tables[name])

    def _link(
        self,
        tables: Iterable[str],
        reader: GraphNode,
        own: Mapping[str, GraphNode] = MappingProxyType({}),
    ) -> None:
        """Link a node with the tables that it reads. `own`: parts of the rule, which come first."""
        for table in sorted(tables):
            source = own.get(table, self._tables.get(table))
            if source is not None and source != reader:  # others are attributes, such as `event`
                self._graph.add_link(source, reader)


def _make_node(kind: NodeKind, name: str) -> GraphNode:
    """A rule, or a part of one."""
    return GraphNode(kind, name, name.partition("/")[0])


def _join_outputs(graph: Graph) -> None:
    """Have links of streams that stages write start there: readers do not know what writes them."""
    for link in list(graph.links):
        source = graph.nodes[link.source]
        stage = f"stage:{source.name}"
        if source.kind == "recall" and stage in graph.nodes:
            del graph.links[link]
            graph.links[Link(stage, link.target)] = None
            graph.nodes.pop(link.source, None)


def _link_alerts(graph: Graph) -> None:
    """Link all rules with the stream of alerts, if any query reads it."""
    if ALERTS_NODE.id in graph.nodes:
        for node in list(graph.nodes.values()):
            if node.kind == "rule":
                graph.add_link(node, ALERTS_NODE)
