"""Rows that were erased from a stream: by keyed hashes of their identities, so that nothing of them
is kept, and whoever delivers one of them again brings a duplicate.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from archiver.delta.identity import Array
from archiver.times import Micros

HASH_BYTES = 16
_ID_BYTES = 16
_HOUR = 3_600_000_000  # microseconds
_HASH_DTYPE = np.dtype(f"S{HASH_BYTES}")
_NO_UNIT = np.empty(0, dtype=np.int64)


class ErasedRow(NamedTuple):
    """A row that was erased. `hash`: of its identity; `unit`, `line`: where it was read.

    `hour`: of its event time, as hours since 1970.
    """

    hash: bytes
    unit: int
    line: int
    hour: int


def hash_identity(key: bytes, identity: bytes) -> bytes:
    """The keyed hash of an identity of 16 bytes, of which numpy drops zeros at the end."""
    padded = identity.ljust(_ID_BYTES, b"\0")
    return blake2b(padded, digest_size=HASH_BYTES, key=key).digest()


def hours_of(ts: Array) -> Array:
    """The hours since 1970 of event times in microseconds."""
    return np.floor_divide(ts, _HOUR)


def hour_start(hour: int) -> Micros:
    """The first event time of an hour."""
    return hour * _HOUR


@dataclass(frozen=True)
class ErasedRows:
    """Erased rows of one stream. `hashes`: sorted; `units`, `lines`: of the same rows.

    `hours`: sorted, those of all rows: identities of other times are not hashed.
    """

    key: bytes = b""
    hashes: Array = field(default_factory=lambda: np.empty(0, dtype=_HASH_DTYPE))
    units: Array = field(default_factory=lambda: _NO_UNIT)
    lines: Array = field(default_factory=lambda: _NO_UNIT)
    hours: Array = field(default_factory=lambda: _NO_UNIT)

    @staticmethod
    def of(key: bytes, rows: Iterable[ErasedRow]) -> "ErasedRows":
        """Erased rows in any order."""
        ordered = sorted(rows)
        return ErasedRows(
            key=key,
            hashes=np.array([row.hash for row in ordered], dtype=_HASH_DTYPE),
            units=np.array([row.unit for row in ordered], dtype=np.int64),
            lines=np.array([row.line for row in ordered], dtype=np.int64),
            hours=np.unique(np.array([row.hour for row in ordered], dtype=np.int64)),
        )

    def __len__(self) -> int:
        return len(self.hashes)

    def find(self, ids: Array, ts: Array) -> tuple[Array, Array]:
        """Positions of the identities that were erased, and their positions among `hashes`.

        `ts`: the event times of the rows. A row that was erased several times is found so often.
        """
        candidates = np.flatnonzero(np.isin(hours_of(ts), self.hours)) if len(self) else _NO_UNIT
        if not len(candidates):
            return _NO_UNIT, _NO_UNIT
        hashed = [hash_identity(self.key, value) for value in ids[candidates].tolist()]
        wanted_hashes = np.array(hashed, dtype=_HASH_DTYPE)
        first = np.searchsorted(self.hashes, wanted_hashes, side="left")
        counts = np.searchsorted(self.hashes, wanted_hashes, side="right") - first
        positions = np.repeat(candidates, counts)
        starts = np.repeat(first, counts)
        offsets = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
        return positions, starts + offsets


NOTHING_ERASED = ErasedRows()
