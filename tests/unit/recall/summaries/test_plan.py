"""Covers of ranges, nodes to compute, and whether a summary is worth what it costs."""

from dataclasses import replace

import pytest

from archiver.time_range import TimeRange
from recall.requests import ChunkRange
from recall.summaries.plan import (
    FANOUT,
    PROBATION_CHUNKS,
    ClosedChunks,
    Costs,
    NodeId,
    digest_chunk,
    digest_node,
    explain_loss,
    plan_chunk_nodes,
    plan_cover,
    plan_level_nodes,
)

COUNT = 40
CHUNKS = ClosedChunks(
    [
        ChunkRange(chunk, TimeRange(None if chunk == 0 else chunk * 10, (chunk + 1) * 10))
        for chunk in range(COUNT)
    ]
)
DIGESTS = {chunk: f"d{chunk}" for chunk in range(COUNT)}


def is_present(*levels: int) -> "set[NodeId]":
    nodes: set[NodeId] = set()
    for level in levels:
        nodes |= {(level, first) for first in range(0, COUNT, FANOUT**level)}
    return nodes


def test_range_takes_few_nodes_and_reads_its_borders() -> None:
    nodes = is_present(0, 1)
    cover = plan_cover(TimeRange(145, 395), CHUNKS, DIGESTS, nodes.__contains__)
    singles = [(0, 15), *((0, chunk) for chunk in range(32, 39))]
    assert cover.nodes == (singles[0], (1, 16), *singles[1:])
    assert cover.gaps == (TimeRange(145, 150), TimeRange(390, 395))
    assert cover.answered_count == cover.closed_count == 24


def test_unbounded_range_begins_with_the_first_chunk() -> None:
    cover = plan_cover(TimeRange(None, 400), CHUNKS, DIGESTS, is_present(0, 1).__contains__)
    assert cover.gaps == () and cover.answered_count == COUNT


def test_chunk_without_node_is_read_and_chunk_without_rows_is_not() -> None:
    nodes = is_present(0) - {(0, 3), (0, 4), (0, 6)}
    cover = plan_cover(TimeRange(20, 80), CHUNKS, {**DIGESTS, 6: ""}, nodes.__contains__)
    assert cover.nodes == ((0, 2), (0, 5), (0, 7))
    assert cover.gaps == (TimeRange(30, 50),)
    assert (cover.answered_count, cover.closed_count) == (4, 6)


def test_range_inside_a_chunk_is_read() -> None:
    cover = plan_cover(TimeRange(21, 29), CHUNKS, DIGESTS, is_present(0, 1).__contains__)
    assert (cover.nodes, cover.gaps) == ((), (TimeRange(21, 29),))


def test_digest_depends_on_files_and_range_only() -> None:
    digest = digest_chunk(TimeRange(0, 10), ["b", "a"])
    assert digest == digest_chunk(TimeRange(0, 10), ["a", "b"])
    others = {digest_chunk(TimeRange(0, 11), ["a", "b"]), digest_chunk(TimeRange(0, 10), ["a"])}
    assert digest not in others and len(others) == 2
    assert digest_chunk(TimeRange(0, 10), []) == ""


def test_digest_of_a_run_needs_all_chunks() -> None:
    assert digest_node(0, 15, DIGESTS) != digest_node(0, 15, {**DIGESTS, 7: "other"})
    assert digest_node(0, 15, dict.fromkeys(range(1, COUNT), "x")) is None
    assert digest_node(3, 3, DIGESTS) == "d3"


def test_newest_chunks_are_summarised_first() -> None:
    nodes = is_present(0) - {(0, 2), (0, 8), (0, 9)}
    plans = plan_chunk_nodes({**DIGESTS, 8: ""}, nodes.__contains__, 2)
    assert [(plan.first, plan.inputs) for plan in plans] == [(9, "d9"), (2, "d2")]


def test_run_of_chunks_is_merged_once_all_parts_are_there() -> None:
    nodes = is_present(0) - {(0, 20), (0, 5)}
    (plan,) = plan_level_nodes(1, {**DIGESTS, 5: ""}, nodes.__contains__)
    assert (plan.level, plan.first, plan.last) == (1, 0, 15)
    assert (0, 5) not in plan.parts and len(plan.parts) == 15


COSTS = Costs(chunks=1, rows=1_000, groups=10, build_seconds=0.02, lookup_seconds=0.001)


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({}, None),
        ({"groups": 126}, "126 groups"),
        ({"chunks": PROBATION_CHUNKS - 1}, None),
        ({"chunks": PROBATION_CHUNKS}, "asked 0 times"),
        ({"chunks": PROBATION_CHUNKS, "asked_count": 3_000, "read_seconds": 0.01}, None),
        ({"chunks": PROBATION_CHUNKS, "asked_count": 2_000, "read_seconds": 0.01}, "saved 18.0 s"),
        ({"chunks": PROBATION_CHUNKS, "asked_count": 1_100}, None),
    ],
)
def test_summary_is_kept_while_it_saves_more_than_it_costs(
    changes: dict[str, float], loss: str | None
) -> None:
    reason = explain_loss(replace(COSTS, **changes))  # type: ignore[arg-type]
    assert reason is None if loss is None else reason is not None and loss in reason
