"""Requests of recalls: stored questions, pieces of history and coverage."""

import json
from dataclasses import asdict, replace
from uuid import UUID

import pytest

from archiver.time_range import TimeRange
from recall.history_ranges import Landmark, Season
from recall.requests import (
    AnyQuestion,
    ChunkRange,
    Order,
    Piece,
    RecallEvent,
    RecallQuestion,
    SimilarQuestion,
    SqlQuestion,
    compute_coverage,
    enclosing_range,
    join_pieces,
    parse_question,
    piece_seconds,
    plan_pieces,
    relate_to_request,
    task_id,
)

SIMILAR = SimilarQuestion(
    range=None, every=5.0, order="mixed", contexts=("running",), k=3, measure="jaccard", gap=0
)
SQL = SqlQuestion(
    range=30,
    every=5.0,
    order="newest",
    sql="SELECT count(*) AS n FROM cpu",
    streams={"cpu": "ts"},
    relations=("hosts",),
    derived={},
    attributes={"host": "string"},
    own={},
    columns={"n": "bigint"},
)
CHUNKS = [
    ChunkRange(1, TimeRange(None, 10)),
    ChunkRange(2, TimeRange(10, 20)),
    ChunkRange(3, TimeRange(20)),
]


def similar_question(range_: int | None, order: Order) -> SimilarQuestion:
    return SimilarQuestion(range_, 5.0, order, contexts=(), k=3, measure="jaccard", gap=0)


@pytest.mark.parametrize("question", [SIMILAR, SQL])
def test_stored_question_is_read_back(question: AnyQuestion) -> None:
    assert parse_question(asdict(question)) == question


def test_stored_event_is_read_back() -> None:
    event = RecallEvent(UUID(int=1), 5, {"host": "a"}, {"host": "a", "cpu": 95.0})
    assert RecallEvent.from_json(event.eid, event.to_json()) == event


def test_task_id_does_not_change() -> None:
    """Stored tasks are found by it."""
    task = task_id("g/Busy", "v1", "norm", UUID(int=1))
    assert task == UUID("3c500ca5-995a-51ad-9471-8a8a2daa51d4")


@pytest.mark.parametrize(
    ("range_", "order", "pieces"),
    [
        (None, "newest", [Piece(3, 20, 25), Piece(2, 10, 20), Piece(1, None, 10)]),
        (None, "oldest", [Piece(1, None, 10), Piece(2, 10, 20), Piece(3, 20, 25)]),
        (10, "newest", [Piece(3, 20, 25), Piece(2, 15, 20)]),
        (18, "mixed", [Piece(3, 20, 25), Piece(2, 10, 20), Piece(1, 7, 10)]),
    ],
)
def test_chunks_are_cut_to_the_requested_range(
    range_: int | None, order: Order, pieces: list[Piece]
) -> None:
    assert plan_pieces(CHUNKS, 25, similar_question(range_, order)) == pieces


def test_range_may_end_before_the_event() -> None:
    question = replace(SQL, range=18, offset=6)
    assert plan_pieces(CHUNKS, 25, question) == [Piece(2, 10, 19), Piece(1, 7, 10)]
    coverage = compute_coverage(plan_pieces(CHUNKS, 25, question), 2, 0)
    assert (
        relate_to_request(coverage, question, RecallEvent(UUID(int=1), 25, {}, {}), []).asked_to
        == 19
    )


def test_range_may_begin_at_a_time_of_the_day() -> None:
    """At 06:00 UTC, the last 07:00 in Rome was an hour before in summer."""
    day, hour = 86_400_000_000, 3_600_000_000
    event_ts = 20_629 * day + 6 * hour  # 2026-06-25
    question = replace(SQL, range=None, since=Landmark(7 * hour, "Europe/Rome").to_json())
    assert question.asked_ranges(event_ts) == (TimeRange(event_ts - hour, event_ts),)
    assert question.asked_ranges(event_ts - 2 * hour) == (
        TimeRange(event_ts - 25 * hour, event_ts - 2 * hour),
    )
    assert replace(question, range=30).asked_range(event_ts).start == event_ts - 30
    assert replace(question, offset=2 * hour).asked_ranges(event_ts) == ()


def test_piece_of_several_ranges_is_stored_and_measured() -> None:
    piece = Piece.of_ranges(
        2, (TimeRange(10_000_000, 12_000_000), TimeRange(15_000_000, 16_000_000))
    )
    assert (piece.low, piece.high, piece_seconds([piece])) == (10_000_000, 16_000_000, [3.0])
    assert Piece.from_json(json.loads(json.dumps(piece.to_json()))) == piece
    gap = Piece(2, 12_000_000, 15_000_000)
    assert join_pieces([gap, piece]) == Piece(2, 10_000_000, 16_000_000)
    assert join_pieces([Piece(3, 30_000_000, 31_000_000), piece]).ranges == (
        *piece.parts,
        TimeRange(30_000_000, 31_000_000),
    )


def test_chunks_between_the_ranges_are_not_read() -> None:
    """The hour of each of three days, in chunks of six hours."""
    hour = 3_600_000_000
    chunks = [
        ChunkRange(n, TimeRange(6 * n * hour if n else None, 6 * (n + 1) * hour)) for n in range(13)
    ]
    season = Season("hour_of_day").to_json()
    question = replace(SQL, range=72 * hour, season=season)
    pieces = plan_pieces(chunks, 74 * hour, question)
    assert pieces == [
        Piece(chunk, (24 * day + 2) * hour, (24 * day + 3) * hour)
        for day, chunk in ((2, 8), (1, 4), (0, 0))
    ]
    event = RecallEvent(UUID(int=1), 74 * hour, {}, {})
    coverage = relate_to_request(compute_coverage(pieces[1:], 2, 0), question, event, pieces[1:])
    assert (coverage.ranges, coverage.read, coverage.partial) == (3, 2, True)
    assert coverage.share == pytest.approx(2 / 3)


def test_chunks_after_the_event_are_not_read() -> None:
    assert plan_pieces(CHUNKS, 15, similar_question(None, "newest")) == [
        Piece(2, 10, 15),
        Piece(1, None, 10),
    ]


def test_enclosing_range_may_have_no_beginning() -> None:
    assert enclosing_range([Piece(3, 20, 25), Piece(2, 10, 20)]) == (10, 25)
    assert enclosing_range([Piece(2, 10, 20), Piece(1, None, 10)]) == (None, 20)


def test_coverage_of_an_intermediate_answer_is_what_was_read() -> None:
    pieces = [Piece(3, 20, 25), Piece(2, 10, 20), Piece(1, 0, 10)]
    coverage = compute_coverage(pieces, pieces_done=2, failed=1)
    assert (coverage.asked_from, coverage.read_from, coverage.read_to) == (0, 10, 25)
    assert (coverage.read, coverage.left, coverage.failed) == (1, 1, 1)
    assert coverage.partial
    assert not coverage.final


def test_coverage_of_the_final_answer_includes_what_summaries_rule_out() -> None:
    pieces = [Piece(1, 0, 10), Piece(3, 20, 25), Piece(2, 10, 20)]
    coverage = compute_coverage(pieces, pieces_done=3, failed=0, skipped=1)
    assert (coverage.read_from, coverage.read_to) == (0, 25)
    assert (coverage.read, coverage.by_summary) == (2, 1)
    assert coverage.final
    assert not coverage.partial


def test_piece_without_a_beginning_counts_as_the_mean_of_the_others() -> None:
    pieces = [
        Piece(3, 4_000_000, 8_000_000),
        Piece(2, 2_000_000, 4_000_000),
        Piece(1, None, 2_000_000),
    ]
    assert piece_seconds(pieces) == [4.0, 2.0, 3.0]
    assert piece_seconds([Piece(1, None, 2_000_000)]) == [1.0]


@pytest.mark.parametrize(
    ("done", "failed", "share"), [(0, 0, 0.0), (1, 0, 0.2), (2, 0, 0.6), (2, 1, 0.3), (3, 0, 1.0)]
)
def test_coverage_states_the_share_of_the_range(done: int, failed: int, share: float) -> None:
    pieces = [Piece(3, 20, 25), Piece(2, 10, 20), Piece(1, 0, 10)]
    assert compute_coverage(pieces, done, failed).share == pytest.approx(share)
    assert compute_coverage([], 0, 0).share == 1.0


def test_stored_piece_is_read_back() -> None:
    assert Piece.from_json([3, None, 25]) == Piece(3, None, 25)
    assert Piece(3, None, 25).to_json() == (3, None, 25)


def test_joined_pieces_span_all_of_them() -> None:
    assert join_pieces([Piece(3, 20, 25), Piece(2, 10, 20)]) == Piece(3, 10, 25)


@pytest.mark.parametrize(
    ("asked", "oldest", "asked_from", "partial"),
    [
        (50, 60, 50, True),  # the chunks before 60 have expired
        (70, 60, 70, False),
        (50, None, 50, False),  # the archive begins later than the range
        (None, 60, 60, False),  # all that there is
    ],
)
def test_range_that_was_cut_by_retention_is_stated(
    asked: int | None, oldest: int | None, asked_from: int, partial: bool
) -> None:
    question = RecallQuestion(None if asked is None else 100 - asked, 1.0, "newest")
    low = oldest if asked is None or oldest is None else max(asked, oldest)
    pieces = [Piece(2, 80, 100), Piece(1, asked if low is None else low, 80)]
    event = RecallEvent(UUID(int=1), 100, {}, {})
    coverage = relate_to_request(compute_coverage(pieces, 2, 0), question, event, pieces)
    assert (coverage.asked_from, coverage.partial) == (asked_from, partial)
    assert coverage.share == pytest.approx(0.8 if partial else 1.0)
    assert coverage.final


@pytest.mark.parametrize(
    ("previous", "range_", "start"),
    [(None, None, None), (None, 50, 50), (40, None, 41), (40, 50, 50), (70, 50, 71)],
)
def test_range_until_the_alert_before_begins_after_its_last_event(
    previous: int | None, range_: int | None, start: int | None
) -> None:
    question = replace(SQL, range=range_, until="previous")
    assert question.asked_range(100, previous) == TimeRange(start, 100)
    event = RecallEvent(UUID(int=1), 100, {}, {}, previous)
    pieces = plan_pieces([ChunkRange(0, TimeRange(60, 80))], 100, question, previous)
    coverage = relate_to_request(compute_coverage(pieces, 1, 0), question, event, pieces)
    assert coverage.asked_from == (60 if start is None else start)


def test_event_of_a_task_keeps_the_time_of_the_alert_before() -> None:
    for previous in (None, 40):
        event = RecallEvent(UUID(int=1), 100, {"host": "a"}, {"v": 1}, previous)
        stored = event.to_json()
        assert ("previous" in stored) == (previous is not None)
        assert RecallEvent.from_json(event.eid, stored) == event
