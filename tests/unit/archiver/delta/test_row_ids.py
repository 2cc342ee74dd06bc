"""The digest over identities of rows."""

import pyarrow as pa

from archiver.delta.row_ids import RowIds, sum_ids


def _column(*chunks: list[int]) -> "pa.ChunkedArray":
    arrays = [pa.array([n.to_bytes(16, "big") for n in chunk], pa.binary()) for chunk in chunks]
    return pa.chunked_array(arrays, pa.binary())


def test_digest_does_not_depend_on_order_and_files() -> None:
    whole = sum_ids(_column([1, 2, 3, 1 << 100]))
    assert whole.count == 4
    assert sum_ids(_column([3], [], [1 << 100, 1, 2])) == whole
    parts = [sum_ids(_column([2, 3])), sum_ids(_column([1, 1 << 100]))]
    assert RowIds.sum(parts) == whole
    assert sum_ids(_column([1, 2, 3, 1 << 100]).slice(1, 2)) == parts[0]


def test_digest_differs_for_other_rows() -> None:
    assert sum_ids(_column([1, 2])) != sum_ids(_column([1, 3]))
    assert sum_ids(_column([0])) != sum_ids(_column([0, 0]))
    assert sum_ids(_column()) == RowIds()


def test_digest_is_text() -> None:
    ids = sum_ids(_column([(1 << 128) - 1, 5]))
    assert RowIds.parse(ids.count, ids.digest) == ids
    assert len(ids.digest) == 32
