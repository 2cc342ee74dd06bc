"""A digest over the identities of rows: equal sets have equal ones, whatever files they are in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ID_BYTES = 16
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class RowIds:
    """The number of rows, and the sums of both halves of their identities, modulo 2^64."""

    count: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: "RowIds") -> "RowIds":
        return RowIds(
            self.count + other.count,
            (self.first + other.first) & _MASK,
            (self.second + other.second) & _MASK,
        )

    @property
    def digest(self) -> str:
        """The sums as text."""
        return f"{self.first:016x}{self.second:016x}"

    @property
    def tag(self) -> str:
        """Number and digest, as a commit holds them: see `archiver.delta.digests`."""
        return f"{self.count}:{self.digest}"

    @staticmethod
    def parse_tag(tag: str) -> "RowIds":
        """Reverse `tag`. Raises `ValueError`."""
        count, digest = tag.split(":")
        return RowIds.parse(int(count), digest)

    @staticmethod
    def parse(count: int, digest: str) -> "RowIds":
        """Reverse `digest`."""
        return RowIds(count, int(digest[:16], 16), int(digest[16:], 16))

    @staticmethod
    def sum(parts: "Iterable[RowIds]") -> "RowIds":
        """The digest of all rows together."""
        return sum(parts, RowIds())


def sum_row_ids(rows: pa.Table) -> RowIds:
    """The digest of rows with `_id` and `_unit`, without those that other programs appended."""
    return sum_ids(rows.filter(pc.is_valid(rows["_unit"]))["_id"])


def sum_ids(column: "pa.ChunkedArray[Any]") -> RowIds:
    """The digest of a column of identities."""
    ids = column.cast(pa.binary(_ID_BYTES)).combine_chunks()
    if isinstance(ids, pa.ChunkedArray):  # of several chunks, or none
        parts = [sum_ids(pa.chunked_array([chunk])) for chunk in ids.chunks]
        return RowIds.sum(parts)
    if not len(ids):
        return RowIds()
    content = ids.buffers()[1]
    offset = ids.offset * 2
    halves = np.frombuffer(content, np.dtype("<u8"))[offset : offset + 2 * len(ids)]
    sums = halves.reshape(-1, 2).sum(axis=0, dtype=np.uint64)
    return RowIds(len(ids), int(sums[0]), int(sums[1]))
