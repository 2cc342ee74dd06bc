"""The summaries of an archive in a process: which there are, and partial answers from them.

A node answers for its chunks only if the snapshot that a query has pinned has exactly the files that
it was computed of. So an answer holds the rows that the query would read, whatever was appended,
rewritten or deleted since the node was written.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import structlog
from cachetools import LRUCache

from archiver.delta import DataFile
from archiver.delta.summary_table import SummaryNode, SummaryTable
from archiver.read import Reader
from archiver.storage import StorageRoot
from archiver.time_range import TimeRange
from recall.engines import LruCache, Template
from recall.errors import NodeDamaged, NotSummarised
from recall.operators import merge_tables
from recall.query import Unsupported, sql_names
from recall.requests import ChunkRange, RecallEvent
from recall.summaries.model import Lookup, SummaryShape, SummaryUse
from recall.summaries.plan import (
    ClosedChunks,
    Costs,
    Cover,
    NodeId,
    digest_chunk,
    digest_node,
    plan_cover,
    span,
)
from recall.summaries.shape import find_use

_LOG = structlog.get_logger()

_NODE_CACHE_BYTES = 192 << 20
_SMOOTHING = 0.1  # the weight of the latest measurement
_DAMAGE = (OSError, pa.ArrowException)


class NodeRows:
    """The rows of a node, and where those of a key are."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()
        self._positions: dict[tuple[str, ...], dict[tuple[Any, ...], list[int]]] = {}

    def find(self, columns: tuple[str, ...], key: tuple[Any, ...]) -> list[int] | None:
        """The positions of the rows with values in some columns; None: all rows."""
        if not columns:
            return None
        if columns not in self._positions:
            positions: dict[tuple[Any, ...], list[int]] = {}
            values = [self.rows[column].to_pylist() for column in columns]
            for position, row_key in enumerate(zip(*values, strict=True)):
                positions.setdefault(row_key, []).append(position)
            self._positions[columns] = positions
        return self._positions[columns].get(key, [])


@dataclass
class Summary:
    """A summary that is kept. `nodes`: of its table, by the digest of their inputs as well.

    `answered`: the chunks that it answers as far as known, see `SummaryStore.answered_chunks`.
    `costs`: of this process. `loss`: why it is not kept, see `explain_loss`.
    """

    shape: SummaryShape
    table: SummaryTable
    nodes: Mapping[tuple[NodeId, str], SummaryNode] = field(default_factory=dict)
    answered: frozenset[int] = frozenset()
    costs: Costs = field(default_factory=Costs)
    loss: str | None = None

    # Approximate if several threads count: what decides is thousands of answers.

    def count_asked(self, chunks: int) -> None:
        """Count chunks that answers have asked for."""
        self.costs = replace(self.costs, asked_count=self.costs.asked_count + chunks)

    def measure_lookup(self, seconds: float) -> None:
        """Record how long an event took for a chunk that a node answers."""
        measured = _smooth(self.costs.lookup_seconds, seconds)
        self.costs = replace(self.costs, lookup_seconds=measured)

    def measure_read(self, seconds: float) -> None:
        """Record how long an event took to read rows, about those of a chunk."""
        measured = _smooth(self.costs.read_seconds, seconds)
        self.costs = replace(self.costs, read_seconds=measured)

    def count_built(self, rows: int, groups: int, seconds: float) -> None:
        """Count the node of a chunk that was computed."""
        costs = self.costs
        self.costs = replace(
            costs,
            chunks=costs.chunks + 1,
            rows=costs.rows + rows,
            groups=costs.groups + groups,
            build_seconds=_smooth(costs.build_seconds, seconds),
        )


def _smooth(average: float, measured: float) -> float:
    """A moving average; 0: nothing was measured before."""
    return average + (measured - average) * _SMOOTHING if average else measured


class StreamContents:
    """Digests of the files of closed chunks of a stream, in one version after the other."""

    def __init__(self) -> None:
        self._digests: dict[ChunkRange, tuple[list[str], str]] = {}
        # The only chunk of the rows of a file, once it is closed.
        self._chunks_by_path: dict[str, int] = {}
        # What was asked last: most queries see the same files.
        self._last_chunks: ClosedChunks | None = None
        self._last_files: Sequence[DataFile] = ()
        self._last_digests: dict[int, str] = {}

    def digest(self, chunks: ClosedChunks, files: Sequence[DataFile]) -> dict[int, str]:
        """By chunk, see `digest_chunk`."""
        if chunks is self._last_chunks and files == self._last_files:
            return self._last_digests
        self._last_digests = self._compute(chunks, files)
        self._last_chunks, self._last_files = chunks, list(files)
        return self._last_digests

    def _compute(self, chunks: ClosedChunks, files: Sequence[DataFile]) -> dict[int, str]:
        paths: dict[int, list[str]] = {}
        chunks_by_path = self._chunks_by_path
        self._chunks_by_path = {}
        for file in files:
            chunk = chunks_by_path.get(file.path)
            if chunk is None:
                own = chunks.ranges.get(file.chunk)
                if own is None or not (own.contains(file.oldest) and own.contains(file.newest)):
                    # Of another program, or of a chunk that is not closed.
                    for overlapping in chunks.overlapping(file.oldest, file.newest):
                        paths.setdefault(overlapping.chunk, []).append(file.path)
                    continue
                chunk = file.chunk
            self._chunks_by_path[file.path] = chunk
            paths.setdefault(chunk, []).append(file.path)
        digests: dict[int, str] = {}
        for closed in chunks.chunks:
            chunk_paths = paths.get(closed.chunk)
            if chunk_paths is None:
                digests[closed.chunk] = ""
                continue
            last = self._digests.get(closed)
            if last is None or last[0] != chunk_paths:
                last = self._digests[closed] = chunk_paths, digest_chunk(closed.range, chunk_paths)
            digests[closed.chunk] = last[1]
        return digests


class SummaryStore:
    """All summaries of the archive. Thread-safe; `replace` and `refresh` are for one thread.

    `reader`: the builder's, of which queries use nothing but the schemas.
    """

    def __init__(self, root: StorageRoot, reader: Reader) -> None:
        self._root = root
        self.reader = reader
        self._lock = threading.Lock()
        self._summaries: dict[str, Summary] = {}
        self._chunks = ClosedChunks()
        self._contents: dict[str, StreamContents] = {}
        self._nodes: LRUCache[str, NodeRows] = LRUCache(
            _NODE_CACHE_BYTES, lambda node: int(node.rows.nbytes) * 2 + 1_024
        )
        self._damaged: set[str] = set()
        self._uses: LruCache[str, SummaryUse | None] = LruCache()

    @property
    def summaries(self) -> list[Summary]:
        """The summaries that are kept."""
        return list(self._summaries.values())

    def replace(self, shapes: Sequence[SummaryShape], chunks: Sequence[ChunkRange]) -> None:
        """Keep summaries of some shapes. `chunks`: the closed ones, oldest first."""
        summaries: dict[str, Summary] = {}
        for shape in shapes:
            summary = self._summaries.get(shape.key)
            if summary is None:
                summary = Summary(shape, self.open_table(shape))
            summaries[shape.key] = summary
        with self._lock:
            self._summaries = summaries
            if tuple(chunks) != self._chunks.chunks:
                self._chunks = ClosedChunks(chunks)

    def open_table(self, shape: SummaryShape) -> SummaryTable:
        """The table of a summary."""
        definition = orjson.dumps(shape.to_json()).decode()
        name = self.reader.schema(shape.stream).table_name
        return SummaryTable(self._root, name, shape.key, {"moirae.summary": definition})

    def refresh(self, summary: Summary) -> None:
        """Read the nodes that the table of a summary has now."""
        summary.table.refresh()
        nodes: dict[tuple[NodeId, str], SummaryNode] = {}
        for node in summary.table.nodes():
            if node.path not in self._damaged:
                nodes[(node.level, node.first), node.inputs] = node
        summary.nodes = nodes

    def digest(self, stream: str, files: Sequence[DataFile]) -> dict[int, str]:
        """What the closed chunks of a stream hold, by chunk."""
        with self._lock:
            contents = self._contents.setdefault(stream, StreamContents())
            return contents.digest(self._chunks, files)

    @property
    def chunks(self) -> ClosedChunks:
        return self._chunks

    # Answering

    def find(self, template: Template) -> "Match | None":
        """The summary with the fewest dimensions that answers a query."""
        if not self._summaries:
            return None
        use = self._uses.get_or_create(
            f"{template.question.summary} {template.query_key}", lambda: self._find_use(template)
        )
        if use is None:
            return None
        matches: list[Match] = []
        for summary in self._summaries.values():
            lookups = use.find_lookups(summary.shape)
            if lookups is not None:
                matches.append((summary, use, lookups))
        return min(matches, key=lambda match: len(match[0].shape.dimensions), default=None)

    def _find_use(self, template: Template) -> SummaryUse | None:
        try:
            streams = template.partial.inputs.streams
            if len(streams) != 1:
                return None
            (stream,) = streams
            return find_use(template, self.reader.schema(stream).query_columns)
        except (NotSummarised, Unsupported, KeyError):
            return None

    def answered_chunks(self, template: Template) -> frozenset[int]:
        """The chunks that summaries answer for a query, as far as known: those without rows too."""
        match = self.find(template)
        return frozenset() if match is None else match[0].answered

    def plan(
        self, summary: Summary, files: Sequence[DataFile], time_range: TimeRange
    ) -> tuple[Cover, list[SummaryNode]]:
        """How a range is answered. `files`: of the stream, as a query has pinned them."""
        digests = self.digest(summary.shape.stream, files)
        nodes = summary.nodes
        cover = plan_cover(
            time_range,
            self._chunks,
            digests,
            lambda node: find_node(nodes, node, digests) is not None,
        )
        covering = [find_node(nodes, node, digests) for node in cover.nodes]
        return cover, [node for node in covering if node is not None]

    def read_partials(
        self,
        match: "Match",
        template: Template,
        nodes: Sequence[SummaryNode],
        events: Sequence[RecallEvent],
    ) -> dict[str, pa.Table]:
        """The partial answers of events over some nodes, by event ID; none: no matching rows.

        Raises `NodeDamaged`.
        """
        summary, use, lookups = match
        loaded = [self.load(summary, node) for node in nodes]
        shape = summary.shape
        columns = tuple(shape.dimension_column(lookup.dimension) for lookup in lookups)
        partials: dict[str, pa.Table] = {}
        for event in events:
            parts: list[pa.Table] = []
            for key in product(*(lookup.values(event.attributes) for lookup in lookups)):
                parts += _select(loaded, columns, key)
            if parts:
                table = _to_partial(use, shape, pa.concat_tables(parts), str(event.eid))
                merged = merge_tables(template.split, table, table.slice(0, 0))
                assert merged is not None
                partials[str(event.eid)] = merged
        return partials

    def load(self, summary: Summary, node: SummaryNode) -> NodeRows:
        """The rows of a node, from memory if possible. Raises `NodeDamaged`."""
        with self._lock:
            rows = self._nodes.get(node.path)
        if rows is not None:
            return rows
        try:
            rows = NodeRows(summary.table.read(node))
        except _DAMAGE as error:
            # It is left out of the table with the next commit, and its chunks are read meanwhile.
            self._damaged.add(node.path)
            _LOG.warning(
                "a summary cannot be read: its chunks are read instead",
                action="summary_damaged",
                table=str(summary.table.storage),
                file=node.path,
                error=str(error),
            )
            raise NodeDamaged(str(error)) from error
        self.keep(node, rows)
        return rows

    def keep(self, node: SummaryNode, rows: NodeRows) -> None:
        """Keep the rows of a node in memory."""
        with self._lock:
            if rows.rows.nbytes * 2 + 1_024 <= self._nodes.maxsize:
                self._nodes[node.path] = rows


Match = tuple[Summary, SummaryUse, tuple[Lookup, ...]]
"""A summary that answers a query, and how."""


def find_node(
    nodes: Mapping[tuple[NodeId, str], SummaryNode], node: NodeId, digests: Mapping[int, str]
) -> SummaryNode | None:
    """The node of a chunk or run of chunks as their files are now."""
    level, first = node
    inputs = digest_node(first, first + span(level) - 1, digests)
    return None if inputs is None else nodes.get((node, inputs))


def _select(
    nodes: Sequence[NodeRows], columns: tuple[str, ...], key: tuple[Any, ...]
) -> Iterator[pa.Table]:
    """The rows of a key, of those nodes that have any."""
    for node in nodes:
        positions = node.find(columns, key)
        if positions is None:
            yield node.rows
        elif positions:
            first, last = positions[0], positions[-1]
            if last - first + 1 == len(positions):  # a node is sorted by its dimensions
                yield node.rows.slice(first, len(positions))
            else:
                yield node.rows.take(positions)


def _to_partial(use: SummaryUse, shape: SummaryShape, rows: pa.Table, eid: str) -> pa.Table:
    """Rows of a summary as the rows of a partial answer."""
    columns: dict[str, Any] = {sql_names.EID: pa.array([eid] * len(rows))}
    for name, dimension in use.groups.items():
        columns[name] = rows[shape.dimension_column(dimension)]
    measures = shape.measure_columns
    for part in use.parts:
        if part.measure:
            columns[part.column] = rows[measures[part.measure]]
            continue
        if part.distinct:
            values = rows[shape.dimension_column(part.distinct)]
            columns[part.column] = _sets_of_one(values.combine_chunks())
            continue
        means: list[float | None] = []
        pairs = zip(
            rows[measures[part.total]].to_pylist(),
            rows[measures[part.count]].to_pylist(),
            strict=True,
        )
        for total, count in pairs:
            means.append(total / count if count else None)
        columns[part.column] = pa.array(means, pa.float64())
    return pa.table(columns)


def _sets_of_one(values: pa.Array) -> pa.Array:
    """A list for each value, empty for NULL."""
    offsets = np.cumsum([0, *values.is_valid().to_numpy(zero_copy_only=False)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.drop_null())
