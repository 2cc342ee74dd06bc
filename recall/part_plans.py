"""Parts of a corpus, each in the memory of one process: who claims which, and who compares what.

A part is what a corpus has of a chunk. That a process holds it makes comparisons fast; any process
can compare with any part, so answers depend on no claim. No I/O.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from archiver.time_range import TimeRange
from recall.requests import Piece


@dataclass(frozen=True)
class CorpusPart:
    """A part, and who holds it: the lease of a live process; None: nobody."""

    chunk: int
    bytes: int
    holder: int | None


@dataclass(frozen=True)
class PartPlan:
    """The chunks whose parts a process keeps, claims, and gives up."""

    kept: frozenset[int]
    claimed: frozenset[int]
    given_up: frozenset[int]


def plan_parts(parts: Sequence[CorpusPart], lease: int, free_bytes: int) -> PartPlan:
    """Which parts a process holds that has memory for `free_bytes` of them.

    It keeps what it holds and claims what nobody holds, the newest chunks first, as far as they
    fit. It gives up parts that have outgrown its memory.
    """
    kept_chunks, claimed_chunks, outgrown_chunks = set(), set(), set()
    newest_first = sorted(parts, key=lambda part: -part.chunk)
    for part in newest_first:
        if part.holder == lease and part.bytes <= free_bytes:
            kept_chunks.add(part.chunk)
            free_bytes -= part.bytes
        elif part.holder == lease:
            outgrown_chunks.add(part.chunk)
    for part in newest_first:
        if part.holder is None and part.bytes <= free_bytes:
            claimed_chunks.add(part.chunk)
            free_bytes -= part.bytes
    return PartPlan(frozenset(kept_chunks), frozenset(claimed_chunks), frozenset(outgrown_chunks))


@dataclass(frozen=True)
class Division:
    """Which spans of event time are compared here, and which by other processes, by their lease."""

    here: list[TimeRange] = field(default_factory=list)
    elsewhere: dict[int, list[TimeRange]] = field(default_factory=dict)


def divide_pieces(
    pieces: Sequence[Piece], holders: Mapping[int, int], excluded: Collection[int] = ()
) -> Division:
    """Who compares which pieces, which are adjacent in time: the holders of their chunks.

    `holders`: by chunk the lease of another process. `excluded`: those that are not asked.
    """
    division = Division()
    previous: list[TimeRange] | None = None
    for piece in pieces:
        holder = holders.get(piece.chunk)
        if holder is None or holder in excluded:
            spans = division.here
        else:
            spans = division.elsewhere.setdefault(holder, [])
        if spans is previous:
            spans[-1] = spans[-1].enclose(piece.range)
        else:
            spans.append(piece.range)
        previous = spans
    return division
