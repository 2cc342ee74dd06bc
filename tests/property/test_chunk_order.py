"""Each piece of history is read once or ruled out, whatever the order; the newest is never
forgotten.
"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recall.requests import Piece, compute_coverage
from recall.scheduling.chunk_order import rank_pieces

_PROMISES = st.lists(
    st.none() | st.sampled_from([0.0, 0.5, 1.0, 7.0]) | st.floats(0, 10), min_size=1, max_size=40
)
_ORDERS = st.sampled_from(["newest", "promising", "mixed"])


def _pieces(count: int) -> list[Piece]:
    return [(n, n * 10, n * 10 + 10) for n in reversed(range(count))]


@given(_PROMISES, _ORDERS)
def test_each_piece_once(promises: list[float | None], order: str) -> None:
    pieces = _pieces(len(promises))
    found, skipped = rank_pieces(pieces, promises, order)
    assert sorted(found) == sorted(pieces)
    assert set(found[:skipped]) == {
        p for p, promise in zip(pieces, promises, strict=True) if promise == 0
    }


@given(_PROMISES)
def test_promising_pieces_first(promises: list[float | None]) -> None:
    known = [0.5 if promise is None else promise for promise in promises]
    found, skipped = rank_pieces(_pieces(len(known)), known, "promising")
    of = dict(zip(_pieces(len(known)), known, strict=True))
    wanted = found[skipped:]
    assert all(of[a] > of[b] or (of[a] == of[b] and a[2] > b[2]) for a, b in pairwise(wanted))


@given(_PROMISES)
def test_mixed_forgets_neither(promises: list[float | None]) -> None:
    """After 2n pieces the n newest and the n most promising have been read."""
    pieces = _pieces(len(promises))
    found, skipped = rank_pieces(pieces, promises, "mixed")
    newest, _ = rank_pieces(pieces, promises, "newest")
    best, _ = rank_pieces(pieces, promises, "promising")
    for n in range(1, (len(pieces) - skipped) // 2 + 1):
        read = set(found[skipped : skipped + 2 * n])
        assert (
            set(newest[skipped : skipped + n]) <= read and set(best[skipped : skipped + n]) <= read
        )


@given(_PROMISES, _ORDERS, st.data())
def test_coverage_tells_what_a_summary_ruled_out(
    promises: list[float | None], order: str, data: st.DataObject
) -> None:
    found, skipped = rank_pieces(_pieces(len(promises)), promises, order)
    done = data.draw(st.integers(skipped, len(found)))
    covered = compute_coverage(found, done, 0, skipped)
    assert (covered.by_summary, covered.read, covered.left) == (
        skipped,
        done - skipped,
        len(found) - done,
    )
    assert covered.asked_from == 0 and covered.partial == (done < len(found))
    read = found if covered.final else found[skipped:done]
    assert covered.read_from == min((low for _, low, _ in read), default=None)
