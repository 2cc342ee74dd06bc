"""Compute stored answers of recalls again and compare them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import UUID

import sql
from recall.ledger import ChunkRanges, closed_chunks, expand_pieces
from sql.recalls import ErasedSinceRow, RepeatableRow, ReplayGateway

# What a task has read: from piece, to piece (exclusive), appends of each stream (None: failed).
StoredRead = tuple[int, int, Mapping[str, int] | None]


@dataclass(frozen=True)
class ReplayResult:
    """The recomputed answer, and whether it equals the stored one.

    `equal` is None if the answer cannot be computed again. `reason`: which input is unavailable, or
    the first difference.
    """

    answer: Sequence[Mapping[str, Any]]
    equal: bool | None
    reason: str | None = None


def not_reproducible(reason: str) -> ReplayResult:
    """The result for an answer that cannot be computed again."""
    return ReplayResult([], None, reason)


class Replayer(Protocol):
    """Computes one answer again; `row` has pieces."""

    def __call__(self, row: RepeatableRow) -> ReplayResult: ...


@dataclass(frozen=True)
class ReplayedAnswer:
    """The outcome for the last revision of a recall.

    `moirae recalls repeat -o json` prints these fields. `version` is that of the rule. `corpus`:
    the sequence number up to which events count for E and C_k. `appends`: by stream, how many
    appends existed when pieces were read (lowest, highest).
    """

    task: UUID
    recall: str
    rule: str
    version: str
    corpus: int | None
    model: int | None
    appends: Mapping[str, tuple[int, int]]
    revision: int
    equal: bool | None
    why: str | None
    answer: Sequence[Mapping[str, Any]]


def replay(
    connection: sql.Connection, event_or_task_id: UUID, replayers: Mapping[str, Replayer]
) -> Iterator[ReplayedAnswer]:
    """Compute the last answers of an event's recalls again, or of one recall by its task ID.

    `replayers`: by kind of question, `sql` and `similar`.
    """
    chunks = closed_chunks(connection)
    gateway = ReplayGateway(connection)
    for row in gateway.list_repeatable(event_or_task_id):
        erasures = [] if row.answered_at is None else gateway.list_erased_since(row.answered_at)
        if row.pieces is None:
            result = not_reproducible("the recall was restarted and has no new answer yet")
        elif reason := find_erased(row, erasures, chunks):
            result = not_reproducible(reason)
        else:
            result = _replay(row, replayers[row.request["kind"]], chunks)
        yield ReplayedAnswer(
            task=row.id,
            recall=row.recall,
            rule=row.rule,
            version=row.version,
            corpus=row.corpus,
            model=row.model,
            appends=_append_bounds(row),
            revision=row.number,
            equal=result.equal,
            why=result.reason,
            answer=result.answer,
        )


def _replay(row: RepeatableRow, replayer: Replayer, chunks: ChunkRanges) -> ReplayResult:
    if row.piece_count is not None and row.pieces is not None:
        try:
            row = replace(row, pieces=list(expand_pieces(row.pieces, chunks)))
        except KeyError as chunk:
            return not_reproducible(f"chunk {chunk}, which it read, has been deleted")
    return replayer(row)


def find_erased(
    row: RepeatableRow, erasures: Sequence[ErasedSinceRow], chunks: ChunkRanges
) -> str | None:
    """What was erased of the inputs of an answer since, in words; None: nothing."""
    for erasure in erasures:
        moment = f"{erasure.started_at:%Y-%m-%d %H:%M:%S}Z"
        if row.request["kind"] == "similar":
            if erasure.events:
                return f"erased: events, which it may have compared, were erased at {moment}"
            continue
        streams = sorted(_append_bounds(row).keys() & set(erasure.streams))
        if streams and _reads_time(row, erasure, chunks):
            return f"erased: rows of {', '.join(streams)} in its range were erased at {moment}"
    return None


def _reads_time(row: RepeatableRow, erasure: ErasedSinceRow, chunks: ChunkRanges) -> bool:
    """Whether an answer has read pieces of the time of an erasure."""
    pieces = row.pieces or ()
    if row.piece_count is not None:
        try:
            pieces = list(expand_pieces(pieces, chunks))
        except KeyError:
            return True  # chunks that are gone: which times they had is not known
    for _, low, high in pieces:
        if (low is None or low < erasure.last_ts) and high > erasure.first_ts:
            return True
    return False


def _append_bounds(row: RepeatableRow) -> dict[str, tuple[int, int]]:
    relations = row.request.get("relations", ())  # of some a digest is stored with the appends
    bounds = append_bounds(row.seen)
    return {stream: bound for stream, bound in bounds.items() if stream not in relations}


def append_bounds(reads: Sequence[StoredRead]) -> dict[str, tuple[int, int]]:
    """By stream, the lowest and the highest number of appends of some reads."""
    bounds: dict[str, tuple[int, int]] = {}
    for _, _, append_counts in reads:
        for stream, count in (append_counts or {}).items():
            lowest, highest = bounds.get(stream, (count, count))
            bounds[stream] = min(lowest, count), max(highest, count)
    return bounds
