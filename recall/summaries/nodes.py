"""Computes the nodes of summaries: of chunks from their rows, of runs of chunks from their parts."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import structlog

from archiver.delta import DataFile
from archiver.delta.summary_table import SummaryNode, start_nodes
from archiver.read import StreamSnapshot
from recall.engines import DuckDBStatements, Statement
from recall.errors import NodeDamaged, RecallError
from recall.summaries.plan import (
    MAX_LEVEL,
    NodePlan,
    explain_loss,
    plan_chunk_nodes,
    plan_level_nodes,
)
from recall.summaries.statements import (
    NODES_TABLE,
    merge_nodes,
    summarise_rows,
    with_stored_types,
)
from recall.summaries.store import (
    NodeRows,
    Summary,
    SummaryStore,
    find_node,
)

_LOG = structlog.get_logger()

# Nodes of chunks in one commit, and seconds of work on a summary before the next one's turn.
_COMMIT_NODES = 16
_TURN_SECONDS = 2.0
_BEGINNING = 0  # in place of the beginning of time

_Compute = Callable[[Summary, NodePlan, StreamSnapshot], pa.Table | None]


class NodeBuilder:
    """Brings the nodes of summaries up to date. For one thread.

    `settle_time`: seconds without a change after which a chunk is summarised that maintenance has
    not clustered: a summary of files that are about to be rewritten is computed twice.
    """

    def __init__(self, store: SummaryStore, settle_time: float) -> None:
        self._store = store
        self._settle_time = settle_time
        self._duckdb = DuckDBStatements(["SET parquet_metadata_cache = true"])
        # When the content of a chunk was first seen, by stream and chunk.
        self._seen: dict[tuple[str, int], tuple[str, float]] = {}
        # Content that cannot be summarised, by key of the summary.
        self._failed: set[tuple[str, str]] = set()

    def follow(self, summary: Summary) -> tuple[StreamSnapshot, dict[int, str]]:
        """Read the nodes that there are now; returns the stream and the digests of its chunks."""
        stream = summary.shape.stream
        self._store.refresh(summary)
        snapshot = self._store.reader.snapshot(stream)
        digests = self._store.digest(stream, snapshot.all_files)
        self._find_answered(summary, digests)
        return snapshot, digests

    def update(self, summary: Summary, is_required: bool) -> bool:
        """Compute missing nodes and remove stale ones; returns whether more are missing.

        `is_required`: keep them whatever they cost.
        """
        snapshot, digests = self.follow(summary)
        if snapshot.table is None:
            return False
        is_busy = False
        if is_required:
            summary.loss = None
        if summary.loss is None:
            is_busy = self._build(summary, snapshot, digests, is_required)
        if not is_required:
            self._judge(summary)
        self._remove_stale(summary, digests)
        self._find_answered(summary, digests)
        return is_busy

    def _find_answered(self, summary: Summary, digests: Mapping[int, str]) -> None:
        nodes = summary.nodes
        answered: set[int] = set()
        for chunk, digest in digests.items():
            if not digest or ((0, chunk), digest) in nodes:
                answered.add(chunk)
        summary.answered = frozenset(answered)

    def _build(
        self,
        summary: Summary,
        snapshot: StreamSnapshot,
        digests: Mapping[int, str],
        is_required: bool,
    ) -> bool:
        """Compute nodes of chunks, then those of higher levels; whether any are left."""
        deadline = time.monotonic() + _TURN_SECONDS
        settled = self._find_settled(summary, snapshot.all_files, digests)
        nodes = summary.nodes

        def has_node(node: tuple[int, int]) -> bool:
            return find_node(summary.nodes, node, digests) is not None

        while plans := plan_chunk_nodes(settled, has_node, _COMMIT_NODES):
            self._commit(summary, [(plan, self._summarise) for plan in plans], snapshot)
            settled = self._find_settled(summary, snapshot.all_files, digests)
            if not is_required and explain_loss(summary.costs) is not None:
                return False
            if time.monotonic() > deadline:
                return True
        for level in range(1, MAX_LEVEL + 1):
            plans = plan_level_nodes(level, digests, has_node)
            if plans:
                self._commit(summary, [(plan, self._merge) for plan in plans], snapshot)
        return summary.nodes is not nodes

    def _find_settled(
        self, summary: Summary, files: Sequence[DataFile], digests: Mapping[int, str]
    ) -> dict[int, str]:
        """The chunks that can be summarised: clustered ones, and those that do not change."""
        unclustered: set[int] = set()
        for file in files:
            if not file.is_clustered:
                unclustered.add(file.chunk)
        now = time.monotonic()
        settled: dict[int, str] = {}
        for chunk, digest in digests.items():
            stream_chunk = summary.shape.stream, chunk
            seen = self._seen.get(stream_chunk)
            if seen is None or seen[0] != digest:
                seen = self._seen[stream_chunk] = digest, now
            is_quiet = now - seen[1] >= self._settle_time
            if (chunk not in unclustered or is_quiet) and (
                summary.shape.key,
                digest,
            ) not in self._failed:
                settled[chunk] = digest
        return settled

    def _commit(
        self,
        summary: Summary,
        plans: Sequence[tuple[NodePlan, _Compute]],
        snapshot: StreamSnapshot,
    ) -> None:
        """Compute some nodes and commit them together."""
        computed: list[tuple[NodePlan, pa.Table]] = []
        for plan, compute in plans:
            rows = compute(summary, plan, snapshot)
            if rows is not None:
                computed.append((plan, rows))
        if not computed:
            return
        summary.table.create(computed[0][1].schema)
        started_at = start_nodes()
        added: list[DataFile] = []
        rows_by_path: dict[str, NodeRows] = {}
        for plan, rows in computed:
            node = SummaryNode(plan.level, plan.first, plan.last, plan.inputs, "", 0)
            begin = self._store.chunks.ranges[plan.first].start
            file = summary.table.write(node, rows, _BEGINNING if begin is None else begin)
            added.append(file)
            rows_by_path[file.path] = NodeRows(rows)
        summary.table.commit(added, (), started_at)
        self._store.refresh(summary)
        for node in summary.nodes.values():
            if node.path in rows_by_path:
                self._store.keep(node, rows_by_path[node.path])

    def _summarise(
        self, summary: Summary, plan: NodePlan, snapshot: StreamSnapshot
    ) -> pa.Table | None:
        """The node of a chunk from its rows; None: they cannot be summarised."""
        began = time.monotonic()
        time_range = self._store.chunks.ranges[plan.first]
        files = [file for file in snapshot.all_files if file.overlaps(time_range)]
        read = replace(snapshot, rows=(), files=files, all_files=files)
        try:
            text = summarise_rows(summary.shape, read, time_range)
            rows = with_stored_types(summary.shape, self._duckdb.run(Statement(text)))
        except (RecallError, pa.ArrowException) as error:
            # As a sum that is too large: a recall that reads these rows says what is wrong.
            self._failed.add((summary.shape.key, plan.inputs))
            _LOG.warning(
                "a chunk cannot be summarised: recalls read its rows",
                action="chunk_not_summarised",
                stream=summary.shape.stream,
                chunk=plan.first,
                error=str(error),
            )
            return None
        read_rows = sum(file.rows for file in files)
        summary.count_built(read_rows, len(rows), time.monotonic() - began)
        return rows

    def _merge(self, summary: Summary, plan: NodePlan, snapshot: StreamSnapshot) -> pa.Table:
        """The node of a run of chunks from the nodes of its parts."""
        digests = self._store.digest(summary.shape.stream, snapshot.all_files)
        parts: list[pa.Table] = []
        for part in plan.parts:
            node = find_node(summary.nodes, part, digests)
            if node is None:
                raise NodeDamaged(f"node {part} is gone")
            parts.append(self._store.load(summary, node).rows)
        tables = {NODES_TABLE: pa.concat_tables(parts)}
        merged = self._duckdb.run(Statement(merge_nodes(summary.shape), tables))
        return with_stored_types(summary.shape, merged)

    def _remove_stale(self, summary: Summary, digests: Mapping[int, str]) -> None:
        """Remove the nodes of content that is gone, and nodes that are there twice."""
        current = {
            node.path
            for (node_id, _), node in summary.nodes.items()
            if summary.loss is None and find_node(summary.nodes, node_id, digests) is node
        }
        stale = [node for node in summary.table.nodes() if node.path not in current]
        if stale:
            summary.table.commit((), stale, start_nodes())
            self._store.refresh(summary)

    def _judge(self, summary: Summary) -> None:
        """Decide whether a summary is kept. While it is not, what is asked of it is counted."""
        loss = explain_loss(summary.costs)
        if loss is not None and summary.loss is None:
            _LOG.info(
                "a summary is not kept",
                action="summary_not_kept",
                stream=summary.shape.stream,
                dimensions=list(summary.shape.dimensions),
                reason=loss,
            )
        summary.loss = loss
