"""Partial answers of recalls: from summaries where these answer, else from the rows."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from uuid import UUID

import pyarrow as pa

from archiver.delta.summary_table import SummaryNode
from archiver.time_range import TimeRange
from recall.engines import PartialQuery, merge_partials
from recall.engines.routing import EngineRouter
from recall.errors import NodeDamaged
from recall.requests import Piece, RecallEvent, join_pieces
from recall.summaries.plan import Cover
from recall.summaries.store import Match, SummaryStore


@dataclass
class SummarisedPartials:
    """Partial answers by event ID; none: no matching rows.

    `chunks`: how many of the chunks of an event summaries have answered.
    """

    partials: dict[str, pa.Table] = field(default_factory=dict)
    chunks: dict[str, int] = field(default_factory=dict)

    def add(self, query: PartialQuery, partials: dict[str, pa.Table]) -> None:
        """Add what was found in another part of history."""
        for eid, partial in partials.items():
            merged = merge_partials(query.template, self.partials.get(eid), partial)
            assert merged is not None
            self.partials[eid] = merged


@dataclass(frozen=True)
class _PlannedRange:
    """Events of a query with the same range, and how it is answered."""

    event_pieces: Sequence[tuple[RecallEvent, Piece]]
    cover: Cover
    nodes: Sequence[SummaryNode]

    @property
    def events(self) -> list[RecallEvent]:
        return [event for event, _ in self.event_pieces]


@dataclass(frozen=True)
class _PlannedQuery:
    match: Match
    ranges: Sequence[_PlannedRange]


def compute_partials(
    engines: EngineRouter, store: SummaryStore | None, queries: Sequence[PartialQuery]
) -> list[SummarisedPartials]:
    """The partial answers to each query, over the pinned snapshot."""
    plans = [None if store is None else _plan(engines, store, query) for query in queries]
    plain = [query for query, plan in zip(queries, plans, strict=True) if plan is None]
    computed = iter(engines.compute_partials(plain) if plain else ())
    answers: list[SummarisedPartials] = []
    for query, plan in zip(queries, plans, strict=True):
        if plan is None or store is None:
            answers.append(SummarisedPartials(next(computed)))
        else:
            answers.append(_answer(engines, store, plan, query))
    return answers


def _plan(engines: EngineRouter, store: SummaryStore, query: PartialQuery) -> _PlannedQuery | None:
    """How summaries answer a query; None: they do not."""
    match = store.find(query.template)
    if match is None:
        return None
    summary = match[0]
    files = engines.pinned_files(summary.shape.stream)
    pieces_by_range: dict[TimeRange, list[tuple[RecallEvent, Piece]]] = {}
    for event, piece in query.event_pieces:
        for part in piece.ranges:
            part_piece = Piece.of_range(piece.chunk, part)
            pieces_by_range.setdefault(part, []).append((event, part_piece))
    ranges: list[_PlannedRange] = []
    for time_range, event_pieces in pieces_by_range.items():
        cover, nodes = store.plan(summary, files, time_range)
        summary.count_asked(cover.closed_count * len(event_pieces))
        ranges.append(_PlannedRange(event_pieces, cover, nodes))
    if not any(planned.nodes for planned in ranges):
        return None  # read together with other queries
    return _PlannedQuery(match, ranges)


def _answer(
    engines: EngineRouter, store: SummaryStore, plan: _PlannedQuery, query: PartialQuery
) -> SummarisedPartials:
    """One query: of each range from summaries what they answer, and the gaps from rows."""
    summary = plan.match[0]
    result = SummarisedPartials()
    gaps: dict[UUID, tuple[RecallEvent, list[Piece]]] = {}
    for planned in plan.ranges:
        cover = planned.cover
        unread: Sequence[TimeRange] = [planned.event_pieces[0][1].range]
        with suppress(NodeDamaged):
            began = time.monotonic()
            partials = store.read_partials(
                plan.match, query.template, planned.nodes, planned.events
            )
            result.add(query, partials)
            unread = cover.gaps
            for event in planned.events:
                eid = str(event.eid)
                result.chunks[eid] = result.chunks.get(eid, 0) + cover.answered_count
            seconds = time.monotonic() - began
            summary.measure_lookup(seconds / len(planned.events) / max(cover.answered_count, 1))
        for event, piece in planned.event_pieces:
            _, event_gaps = gaps.setdefault(event.eid, (event, []))
            event_gaps += [Piece.of_range(piece.chunk, gap) for gap in unread]
    for pieces in _group_reads(query, gaps.values()):
        began = time.monotonic()
        result.add(query, engines.compute_partials([replace(query, event_pieces=pieces)])[0])
        summary.measure_read((time.monotonic() - began) / len(pieces))
    return result


def _group_reads(
    query: PartialQuery, gaps: Iterable[tuple[RecallEvent, Sequence[Piece]]]
) -> Iterator[list[tuple[RecallEvent, Piece]]]:
    """The pieces that each query reads, one of each event.

    One for all gaps, if an event may read several ranges; else the first gaps of all events are read
    together, then the second ones.
    """
    for numbered in zip_longest(*(_joined(query, event, pieces) for event, pieces in gaps)):
        yield [event_piece for event_piece in numbered if event_piece is not None]


def _joined(
    query: PartialQuery, event: RecallEvent, pieces: Sequence[Piece]
) -> list[tuple[RecallEvent, Piece]]:
    if query.template.reads_ranges and pieces:
        return [(event, join_pieces(pieces))]
    return [(event, piece) for piece in pieces]
