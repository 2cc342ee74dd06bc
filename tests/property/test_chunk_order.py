"""Each piece of history is read once or ruled out, whatever the order."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recall.requests import Order, Piece, compute_coverage
from recall.scheduling.chunk_order import (
    NO_VALUES,
    ValueRange,
    enclose_values,
    rank_by_extremes,
    rank_pieces,
)

_UPPER_BOUNDS = st.lists(
    st.none() | st.sampled_from([0.0, 0.5, 1.0, 7.0]) | st.floats(0, 10), min_size=1, max_size=40
)
_ORDERS: st.SearchStrategy[Order] = st.sampled_from(["newest", "promising", "mixed", "weighted"])
_VALUES = st.lists(
    st.none()
    | st.just(NO_VALUES)
    | st.tuples(st.floats(-100, 100), st.floats(0, 50)).map(
        lambda pair: ValueRange(pair[0], pair[0] + pair[1])
    ),
    min_size=1,
    max_size=30,
)


def _pieces(count: int) -> list[Piece]:
    """Newest first."""
    return [Piece(number, number * 10, number * 10 + 10) for number in reversed(range(count))]


@given(_UPPER_BOUNDS, _ORDERS)
def test_each_piece_is_ranked_once(upper_bounds: list[float | None], order: Order) -> None:
    pieces = _pieces(len(upper_bounds))
    ranked, skipped = rank_pieces(pieces, upper_bounds, order, fade=0.9, seed="a")
    assert (ranked, skipped) == rank_pieces(pieces, upper_bounds, order, fade=0.9, seed="a")
    assert len(ranked) == len(pieces) and set(ranked) == set(pieces)
    useless = {piece for piece, bound in zip(pieces, upper_bounds, strict=True) if bound == 0}
    assert set(ranked[:skipped]) == useless


@given(_UPPER_BOUNDS)
def test_promising_pieces_are_first_and_newer_before_older(
    upper_bounds: list[float | None],
) -> None:
    known_bounds = [0.5 if bound is None else bound for bound in upper_bounds]
    pieces = _pieces(len(known_bounds))
    bounds_by_piece = dict(zip(pieces, known_bounds, strict=True))
    ranked, skipped = rank_pieces(pieces, known_bounds, "promising")
    for earlier, later in pairwise(ranked[skipped:]):
        bound, next_bound = bounds_by_piece[earlier], bounds_by_piece[later]
        assert bound > next_bound or (bound == next_bound and earlier.high > later.high)


def test_piece_without_a_summary_counts_as_the_best() -> None:
    ranked, skipped = rank_pieces(_pieces(4), [1.0, None, 7.0, 0.0], "promising")
    assert [piece.chunk for piece in ranked] == [0, 2, 1, 3]
    assert skipped == 1


@given(_UPPER_BOUNDS)
def test_mixed_order_delays_neither_new_nor_promising_pieces(
    upper_bounds: list[float | None],
) -> None:
    """After 2n pieces the n newest and the n most promising have been read."""
    pieces = _pieces(len(upper_bounds))
    mixed, skipped = rank_pieces(pieces, upper_bounds, "mixed")
    newest, _ = rank_pieces(pieces, upper_bounds, "newest")
    promising, _ = rank_pieces(pieces, upper_bounds, "promising")
    for n in range(1, (len(pieces) - skipped) // 2 + 1):
        read = set(mixed[skipped : skipped + 2 * n])
        assert set(newest[skipped : skipped + n]) <= read
        assert set(promising[skipped : skipped + n]) <= read


@given(_UPPER_BOUNDS, _ORDERS, st.data())
def test_coverage_reports_pieces_that_summaries_rule_out(
    upper_bounds: list[float | None], order: Order, data: st.DataObject
) -> None:
    ranked, skipped = rank_pieces(_pieces(len(upper_bounds)), upper_bounds, order)
    pieces_done = data.draw(st.integers(skipped, len(ranked)))
    coverage = compute_coverage(ranked, pieces_done, 0, skipped)
    assert coverage.by_summary == skipped
    assert coverage.read == pieces_done - skipped
    assert coverage.left == len(ranked) - pieces_done
    assert coverage.asked_from == 0
    assert coverage.partial == (pieces_done < len(ranked))
    covered_pieces = ranked if coverage.final else ranked[skipped:pieces_done]
    assert coverage.read_from == min((piece.low for piece in covered_pieces), default=None)


def test_weighted_pieces_are_drawn_in_proportion_to_their_bounds() -> None:
    """Bounds 3 and 1, without fade: first in 3 of 4 draws; with a fade of a half, in 6 of 7."""
    pieces = _pieces(2)
    for fade, chance in ((1.0, 3 / 4), (0.5, 6 / 7)):
        firsts = 0
        for seed in range(2000):
            ranked, _ = rank_pieces(pieces, [3.0, 1.0], "weighted", fade=fade, seed=str(seed))
            firsts += ranked[0] == pieces[0]
        assert abs(firsts / 2000 - chance) < 0.04  # four standard deviations


def test_fade_of_many_pieces_does_not_underflow() -> None:
    pieces = _pieces(5000)
    ranked, _ = rank_pieces(pieces, [None] * 5000, "weighted", fade=0.01, seed="a")
    assert set(ranked[:3]) <= set(pieces[:10])
    coverage = compute_coverage(pieces, 1, 0, fade=0.5)
    assert coverage.share is not None and abs(coverage.share - 0.5) < 1e-9
    assert compute_coverage(pieces, 5000, 0, fade=0.5).share == 1.0


@given(_VALUES)
def test_extreme_pieces_are_first_and_unread_values_are_bounded(
    values: list[ValueRange | None],
) -> None:
    pieces = _pieces(len(values))
    by_piece = dict(zip(pieces, values, strict=True))
    ranked = rank_by_extremes(pieces, values)
    assert len(ranked) == len(pieces) and set(ranked) == set(pieces)
    kinds = [0 if by_piece[p] is None else 2 if by_piece[p] == NO_VALUES else 1 for p in ranked]
    assert kinds == sorted(kinds)
    unread = enclose_values([by_piece[piece] for piece in ranked[1:]])
    for known in (by_piece[piece] for piece in ranked[1:]):
        assert unread is None or (known is not None and unread.low <= known.low)
        assert unread is None or (known is not None and known.high <= unread.high)


def test_outliers_above_and_below_come_first() -> None:
    pieces = _pieces(5)
    values = [ValueRange(0, 10), ValueRange(1, 30), ValueRange(2, 9), ValueRange(-40, 9), NO_VALUES]
    ranked = rank_by_extremes(pieces, values)
    assert ranked == [pieces[3], pieces[1], pieces[0], pieces[2], pieces[4]]
