"""Each piece of history is read once or ruled out, whatever the order."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recall.requests import Order, Piece, compute_coverage
from recall.scheduling.chunk_order import rank_pieces

_UPPER_BOUNDS = st.lists(
    st.none() | st.sampled_from([0.0, 0.5, 1.0, 7.0]) | st.floats(0, 10), min_size=1, max_size=40
)
_ORDERS: st.SearchStrategy[Order] = st.sampled_from(["newest", "promising", "mixed"])


def _pieces(count: int) -> list[Piece]:
    """Newest first."""
    return [Piece(number, number * 10, number * 10 + 10) for number in reversed(range(count))]


@given(_UPPER_BOUNDS, _ORDERS)
def test_each_piece_is_ranked_once(upper_bounds: list[float | None], order: Order) -> None:
    pieces = _pieces(len(upper_bounds))
    ranked, skipped = rank_pieces(pieces, upper_bounds, order)
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
