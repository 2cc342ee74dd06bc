"""What the revisions of a recall cost, from the recalls that have ended and the chunks there are. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from archiver.times import Micros
from recall.requests import ChunkRange, SqlQuestion, plan_pieces
from recall.scheduling import find_prefix_end
from sql.recalls import MeasuredRecall


class HistoryCosts(NamedTuple):
    """The chunks that there are, oldest first, the time after the newest row, and what the last
    recalls of the rule have cost, by name.
    """

    chunks: Sequence[ChunkRange]
    now: Micros
    measured: Mapping[str, MeasuredRecall]


def estimate_costs(
    recall: str, question: SqlQuestion, costs: HistoryCosts, *, is_whole: bool
) -> dict[str, Any]:
    """What a recall about an event now would cost; seconds are left out until some were measured.

    `is_whole`: evaluated over growing ranges, see `recall.query.split`.
    """
    pieces = plan_pieces(costs.chunks, costs.now, question)
    explanation: dict[str, Any] = {"chunks": len(pieces)}
    measured = costs.measured.get(recall)
    if measured is None:
        return {**explanation, "measured": "none of its recalls has ended yet"}
    explanation["measured"] = f"the last {measured.recalls}, over {measured.pieces} chunks in all"
    reads = count_chunk_reads(len(pieces), is_whole=is_whole)
    past_reads = sum(count_chunk_reads(count, is_whole=is_whole) for count in measured.counts)
    seconds = measured.seconds / max(past_reads, 1)
    last_reads = len(pieces) if is_whole else min(1, len(pieces))
    explanation["first_revision_seconds"] = round(seconds, 4)
    explanation["last_revision_seconds"] = round(seconds * last_reads, 4)
    explanation["all_revisions_seconds"] = round(seconds * reads, 4)
    return explanation


def count_chunk_reads(chunks: int, *, is_whole: bool) -> int:
    """How many chunks the queries of a recall read, those that are read again counted each time."""
    if not is_whole:
        return chunks
    reads, end = 0, 0
    while end < chunks:
        end = find_prefix_end(chunks, end)
        reads += end
    return reads
