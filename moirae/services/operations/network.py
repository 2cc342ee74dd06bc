"""The workspace as a graph with what flows over it, and the last rows of its nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from moirae.errors import NotFound, UsageError
from moirae.runtime.storage import open_storage
from moirae.services.models import Arguments, Name
from moirae.services.operation import operation
from moirae.services.operations.stream_records import RecordQuery, list_records
from sql.events import ContextGateway, EventFilter, EventGateway
from sql.reports import FlowGateway

if TYPE_CHECKING:
    from moirae.network import Flow, Link, Measurements
    from moirae.services.workspace import LocalWorkspace

_MAX_EXPANDED = 100
_FEW_ROWS = 20
_MAX_ROWS = 100

NetworkKind = Literal[
    "stream", "relation", "derived", "alerts", "rule", "context", "recall", "stage", "group"
]


class NetworkQuery(Arguments):
    """Which groups of rules are shown open."""

    expand: list[Name] | None = Field(
        None,
        max_length=_MAX_EXPANDED,
        description="Groups whose rules are nodes of their own; absent: all of them if they are few.",
    )
    collapse: bool = Field(False, description="Show every group as one node.")


class RowQuery(Arguments):
    """How many rows to show."""

    limit: int = Field(_FEW_ROWS, ge=1, le=_MAX_ROWS, description="Maximum number of rows.")


@dataclass(frozen=True)
class NetworkNode:
    """A stream, relation, derived stream, rule, context, recall, stage, or a group of them.

    `group`: of a rule; "": none. `parts`: number of nodes of each kind in a group that is one node.
    """

    id: str
    kind: NetworkKind
    name: str
    group: str
    parts: Mapping[str, int]


@dataclass(frozen=True)
class NetworkLink:
    """One node reads another. None: it is not counted there.

    `rows_per_second`: of the source. `selectivity`: rows of the target for each. `cost`: cores that
    the target spends on it. `memory_bytes`: held for it. `lag_seconds`: of a rule behind a stream, or of
    the oldest recall that has not ended.
    """

    source: str
    target: str
    rows_per_second: float | None
    selectivity: float | None
    cost: float | None
    memory_bytes: int | None
    lag_seconds: float | None


@dataclass(frozen=True)
class NetworkGraph:
    """The graph. `measured_seconds`: over which rows, results and costs are means, until now."""

    measured_seconds: float
    groups: Sequence[str]
    expanded: Sequence[str]
    nodes: Sequence[NetworkNode]
    links: Sequence[NetworkLink]


@dataclass(frozen=True)
class NetworkRows:
    """The last rows that a node has handed on, newest first."""

    node: str
    rows: Sequence[Mapping[str, Any]]


@operation("GET", "/network", role="viewer")
def show_network(workspace: "LocalWorkspace", query: NetworkQuery) -> NetworkGraph:
    """Show what reads what, from streams to recalls, with rows, cost, memory and lag."""
    from moirae.deployments import RuleRegistry
    from moirae.network import build_graph, choose_expanded, collapse, measure

    settings = workspace.settings
    definitions = RuleRegistry(workspace.connection).desired_rules()
    graph = build_graph(definitions, list(settings.streams), list(settings.relations))
    measured = _load_measurements(workspace)
    network = measure(graph, measured)
    expanded = choose_expanded(network) if query.expand is None else frozenset(query.expand)
    shown = collapse(network, () if query.collapse else expanded)
    groups = sorted({node.group for node in graph.nodes.values() if node.group})
    return NetworkGraph(
        measured_seconds=round(measured.seconds, 1),
        groups=groups,
        expanded=[] if query.collapse else [group for group in groups if group in expanded],
        nodes=[
            NetworkNode(node.id, node.kind, node.name, node.group, shown.sizes.get(node.id, {}))
            for node in shown.nodes.values()
        ],
        links=[_describe(link, flow) for link, flow in shown.flows.items()],
    )


def _load_measurements(workspace: "LocalWorkspace") -> "Measurements":
    from moirae.network import Measurements

    gateway = FlowGateway(workspace.connection)
    return Measurements(
        flows={(flow.kind, flow.name): flow for flow in gateway.list_recent()},
        seconds=gateway.get_span(),
        settled=gateway.list_settled(),
        newest=gateway.list_newest(),
        oldest_recalls={row.name: row.oldest for row in gateway.list_open_recalls()},
    )


def _describe(link: "Link", flow: "Flow") -> NetworkLink:
    return NetworkLink(
        source=link.source,
        target=link.target,
        rows_per_second=_round(flow.rows),
        selectivity=_round(flow.selectivity),
        cost=_round(flow.cost),
        memory_bytes=flow.memory,
        lag_seconds=_round(flow.lag),
    )


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


@operation("GET", "/network/rows/{node:path}", role="viewer")
def list_network_rows(workspace: "LocalWorkspace", node: Name, query: RowQuery) -> NetworkRows:
    """Show the last rows of a node, `stream:NAME` or `rule:GROUP/ALERT`, for example.

    Columns that are redacted in the archive are so here. Rows of derived streams are not stored.
    """
    kind, _, name = node.partition(":")
    readers = {
        "stream": _read_stream,
        "rule": _read_events,
        "context": _read_contexts,
        "recall": _read_revisions,
        "stage": _read_revisions,
    }
    if kind not in readers:
        raise UsageError(
            f"{node}: only a stream, rule, context, recall or stage has rows that are stored; query "
            "others with `moirae query`"
        )
    return NetworkRows(node, readers[kind](workspace, name, query.limit))


def _read_stream(workspace: "LocalWorkspace", name: str, limit: int) -> Sequence[Mapping[str, Any]]:
    return list_records(workspace, name, RecordQuery(limit=limit)).records


def _read_events(workspace: "LocalWorkspace", name: str, limit: int) -> Sequence[Mapping[str, Any]]:
    events = EventGateway(workspace.connection).list_newest(EventFilter(rule=name), limit=limit)
    return [{"ts": event.ts, **event.attributes} for event in events]


def _read_contexts(
    workspace: "LocalWorkspace", name: str, limit: int
) -> Sequence[Mapping[str, Any]]:
    """The rows of a context `RULE/NAME` about the newest events, with the time of their event."""
    rule, _, context = name.rpartition("/")
    rows: list[Mapping[str, Any]] = []
    contexts = ContextGateway(workspace.connection)
    newest = EventGateway(workspace.connection).list_newest(EventFilter(rule=rule), limit=limit)
    for event in newest:
        stored = contexts.get(event.rule, event.version, event.eid)
        if stored is not None:
            context_rows = stored.contexts.get(context) or stored.surroundings.get(context) or ()
            rows += [{"event_ts": event.ts, **row} for row in context_rows]
        if len(rows) >= limit:
            break
    return rows[:limit]


def _read_revisions(
    workspace: "LocalWorkspace", name: str, limit: int
) -> Sequence[Mapping[str, Any]]:
    """The last revisions of a recall or stage `RULE/NAME`."""
    from recall.ledger import RevisionReader
    from sql.stages import RowRevisionGateway

    streams = RowRevisionGateway(workspace.connection).find_streams(name)
    if not streams:
        return []
    if len(streams) > 1:
        raise NotFound(f"several recalls or stages are named {name!r}: name the group, too")
    stream = streams[0]
    reader = RevisionReader(workspace.connection, open_storage(workspace.settings))
    revisions = reader.read(stream.id, max(0, stream.last_seq - limit), limit)
    return [
        {"event_ts": revision.ts, "op": revision.op, **(revision.row or revision.old_row or {})}
        for revision in reversed(revisions)
        if revision.op != "boundary"
    ]
