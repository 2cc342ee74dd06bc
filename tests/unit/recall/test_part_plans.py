"""Which parts of a corpus a process claims, and who compares which pieces."""

from hypothesis import given
from hypothesis import strategies as st

from archiver.time_range import TimeRange
from recall.part_plans import CorpusPart, divide_pieces, plan_parts
from recall.requests import Piece

ME, OTHER = 7, 8


def test_free_parts_are_claimed_newest_first_as_far_as_they_fit() -> None:
    parts = [
        CorpusPart(1, 10, None),
        CorpusPart(2, 30, None),
        CorpusPart(3, 20, None),
        CorpusPart(4, 20, OTHER),
    ]
    plan = plan_parts(parts, ME, 35)
    assert plan.claimed == {3, 1}
    assert not plan.kept
    assert not plan.given_up


def test_held_parts_stay_until_they_do_not_fit() -> None:
    parts = [CorpusPart(1, 10, ME), CorpusPart(2, 30, ME), CorpusPart(3, 5, None)]
    assert plan_parts(parts, ME, 45).kept == {1, 2}
    assert plan_parts(parts, ME, 45).claimed == {3}
    grown = plan_parts(parts, ME, 35)
    assert (grown.kept, grown.given_up, grown.claimed) == ({2}, {1}, {3})


def test_a_part_larger_than_the_memory_is_held_by_nobody() -> None:
    assert not plan_parts([CorpusPart(1, 10, None)], ME, 9).claimed


@given(
    st.lists(st.tuples(st.integers(1, 50), st.sampled_from([None, ME, OTHER])), max_size=12),
    st.integers(-10, 200),
)
def test_plans_fit_in_memory_and_never_take_parts_of_others(
    drawn: list[tuple[int, int | None]], free_bytes: int
) -> None:
    parts = [CorpusPart(number, size, holder) for number, (size, holder) in enumerate(drawn)]
    plan = plan_parts(parts, ME, free_bytes)
    held = plan.kept | plan.claimed
    assert sum(part.bytes for part in parts if part.chunk in held) <= max(free_bytes, 0)
    holders = {part.chunk: part.holder for part in parts}
    assert {holders[chunk] for chunk in plan.kept | plan.given_up} <= {ME}
    assert {holders[chunk] for chunk in plan.claimed} <= {None}
    assert plan.kept | plan.given_up == {part.chunk for part in parts if part.holder == ME}


def test_adjacent_pieces_of_one_holder_are_one_span() -> None:
    pieces = [Piece(4, 30, 40), Piece(3, 20, 30), Piece(2, 10, 20), Piece(1, 0, 10)]
    division = divide_pieces(pieces, {4: OTHER, 3: OTHER, 1: OTHER, 9: 10})
    assert division.here == [TimeRange(10, 20)]
    assert division.elsewhere == {OTHER: [TimeRange(20, 40), TimeRange(0, 10)]}
    assert divide_pieces(pieces, {4: OTHER}, {OTHER}).here == [TimeRange(0, 40)]


@given(st.lists(st.sampled_from([None, 1, 2]), min_size=1, max_size=10), st.booleans())
def test_every_piece_is_compared_once(holders: list[int | None], exclude: bool) -> None:
    pieces = [Piece(number, number, number + 1) for number in range(len(holders))]
    by_chunk = {number: holder for number, holder in enumerate(holders) if holder is not None}
    division = divide_pieces(pieces[::-1], by_chunk, {1} if exclude else ())
    spans = [*division.here, *(span for part in division.elsewhere.values() for span in part)]
    times = sorted(ts for start, end in spans for ts in range(start or 0, end or 0))
    assert times == list(range(len(holders)))
    assert not exclude or 1 not in division.elsewhere
