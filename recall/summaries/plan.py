"""Which nodes answer a range of chunks, which are to be computed, and whether they are worth it.

A node of level 0 is the summary of a chunk; one of level n, of `FANOUT` ** n chunks whose numbers
begin with a multiple of that. So a range of any length takes few nodes. No I/O.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.requests import ChunkRange

FANOUT = 16
MAX_LEVEL = 3

# A group of fewer rows takes nearly as much room and time as they do.
MIN_ROWS_PER_GROUP = 8
# Chunks that are summarised before it must have paid: a rule that has not fired yet has asked nothing.
PROBATION_CHUNKS = 1_000

_FIRST = -(1 << 63)  # before all times
_LAST = 1 << 63  # after all times

NodeId = tuple[int, int]
"""The level of a node, and its first chunk."""


def span(level: int) -> int:
    """The number of chunks of a node."""
    return int(FANOUT**level)


def digest_chunk(time_range: TimeRange, paths: Sequence[str]) -> str:
    """Names the content of a chunk by its files; "" without any."""
    if not paths:
        return ""
    text = f"{time_range.start} {time_range.end} {' '.join(sorted(paths))}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def digest_node(first: int, last: int, digests: Mapping[int, str]) -> str | None:
    """Names the content of a run of chunks; None: one of them is not closed, or expired."""
    if first == last:
        return digests.get(first)
    try:
        contents = [digests[chunk] for chunk in range(first, last + 1)]
    except KeyError:
        return None
    return hashlib.blake2b(" ".join(contents).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Cover:
    """How a range of history is answered.

    `nodes`: by summaries. `gaps`: what is read exactly. `answered_count`: how many chunks `nodes`
    answer, with those without rows; `closed_count`: how many they could answer, all closed ones of
    the range.
    """

    nodes: tuple[NodeId, ...]
    gaps: tuple[TimeRange, ...]
    answered_count: int
    closed_count: int


class ClosedChunks:
    """The closed chunks, oldest first, which follow each other without a gap."""

    def __init__(self, chunks: Sequence[ChunkRange] = ()) -> None:
        self.chunks = tuple(chunks)
        self.ranges = {chunk.chunk: chunk.range for chunk in chunks}
        self._starts = [_bound(chunk.range.start, _FIRST) for chunk in chunks]
        self._ends = [_bound(chunk.range.end, _LAST) for chunk in chunks]

    def inside(self, time_range: TimeRange) -> Sequence[ChunkRange]:
        """Those that lie in a range as a whole."""
        begin = bisect_left(self._starts, _bound(time_range.start, _FIRST))
        return self.chunks[begin : bisect_right(self._ends, _bound(time_range.end, _LAST))]

    def overlapping(self, oldest: Micros, newest: Micros) -> Sequence[ChunkRange]:
        """Those that hold times from `oldest` to `newest`, both included."""
        begin = bisect_right(self._ends, oldest)
        return self.chunks[begin : bisect_right(self._starts, newest)]


def _bound(time: Micros | None, default: int) -> int:
    return default if time is None else time


def plan_cover(
    time_range: TimeRange,
    chunks: ClosedChunks,
    digests: Mapping[int, str],
    has_node: Callable[[NodeId], bool],
) -> Cover:
    """Answer a range by as few nodes as possible.

    `digests`: of the content of closed chunks, see `digest_chunk`. `has_node`: whether there is a
    node of a chunk or a run of chunks as they are now.
    """
    inner_chunks = chunks.inside(time_range)
    nodes: list[NodeId] = []
    answered: list[TimeRange] = []
    count = 0
    position = 0
    while position < len(inner_chunks):
        first = inner_chunks[position].chunk
        taken = 0 if digests.get(first, "?") else 1  # no rows, no node
        for level in range(MAX_LEVEL, -1, -1):
            end = position + span(level)
            if first % span(level) == 0 and end <= len(inner_chunks) and has_node((level, first)):
                nodes.append((level, first))
                taken = span(level)
                break
        if taken:
            count += taken
            last = inner_chunks[position + taken - 1]
            answered.append(TimeRange(inner_chunks[position].range.start, last.range.end))
        position += max(taken, 1)
    return Cover(tuple(nodes), _find_gaps(time_range, answered), count, len(inner_chunks))


def _find_gaps(time_range: TimeRange, answered: Sequence[TimeRange]) -> tuple[TimeRange, ...]:
    """What is left of a range without others, which lie in it, in order and apart."""
    gaps: list[TimeRange] = []
    start = time_range.start
    for inner in answered:
        gap = TimeRange(start, inner.start)
        if inner.start is not None and not gap.is_empty:
            gaps.append(gap)
        start = inner.end
    gap = TimeRange(start, time_range.end)
    if not gap.is_empty:
        gaps.append(gap)
    return tuple(gaps)


@dataclass(frozen=True)
class NodePlan:
    """A node to compute: of the files of a chunk, or of the nodes `parts`; see `SummaryNode`."""

    level: int
    first: int
    last: int
    inputs: str
    parts: tuple[NodeId, ...] = ()


def plan_chunk_nodes(
    digests: Mapping[int, str], has_node: Callable[[NodeId], bool], limit: int
) -> list[NodePlan]:
    """The chunks to summarise next, newest first, at most `limit`."""
    plans: list[NodePlan] = []
    for chunk in sorted(digests, reverse=True):
        if len(plans) == limit:
            break
        if digests[chunk] and not has_node((0, chunk)):
            plans.append(NodePlan(0, chunk, chunk, digests[chunk]))
    return plans


def plan_level_nodes(
    level: int, digests: Mapping[int, str], has_node: Callable[[NodeId], bool]
) -> list[NodePlan]:
    """The nodes of a level, from 1 on, whose parts of the level below are all there."""
    plans: list[NodePlan] = []
    for first in sorted({chunk // span(level) * span(level) for chunk in digests}):
        if has_node((level, first)):
            continue
        last = first + span(level) - 1
        inputs = digest_node(first, last, digests)
        if inputs is None:
            continue
        parts: list[NodeId] = []
        is_complete = True
        for part in range(first, last + 1, span(level - 1)):
            part_end = part + span(level - 1)
            if has_node((level - 1, part)):
                parts.append((level - 1, part))
            elif any(digests[chunk] for chunk in range(part, part_end)):
                is_complete = False
        if is_complete and parts:
            plans.append(NodePlan(level, first, last, inputs, tuple(parts)))
    return plans


@dataclass(frozen=True)
class Costs:
    """What a summary has cost and saved so far.

    `rows`: of the chunks that were summarised; `groups`: of their nodes. `asked_count`: the
    `Cover.closed_count` of all answers. Seconds: to compute the node of a chunk, to read a chunk for an event (0: not
    measured), and to look an event up instead.
    """

    chunks: int = 0
    rows: int = 0
    groups: int = 0
    asked_count: int = 0
    build_seconds: float = 0.0
    read_seconds: float = 0.0
    lookup_seconds: float = 0.0


def explain_loss(costs: Costs) -> str | None:
    """Why a summary is not worth what it costs; None: it is, or this is not known yet.

    Summaries pay if what is asked of them saves more time than to compute them takes (the
    break-even rule of Nile: outputs per input = (arrival interval - insertion) / hit).
    """
    if costs.groups * MIN_ROWS_PER_GROUP > costs.rows:
        return (
            f"{costs.rows:,} rows have {costs.groups:,} groups: fewer than {MIN_ROWS_PER_GROUP} "
            "rows each"
        )
    if costs.chunks < PROBATION_CHUNKS:
        return None
    spent = costs.chunks * costs.build_seconds
    read_seconds = costs.read_seconds or costs.build_seconds
    saved = costs.asked_count * (read_seconds - costs.lookup_seconds)
    if saved < spent:
        return (
            f"{costs.chunks:,} chunks were summarised in {spent:.1f} s, which saved {saved:.1f} s: "
            f"asked {costs.asked_count:,} times"
        )
    return None
