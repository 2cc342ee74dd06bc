"""Erased rows are recognised by keyed hashes of their identities."""

import numpy as np

from archiver.delta import ErasedRow, ErasedRows, hash_identity, hours_of

KEY = b"k" * 32
HOUR = 3_600_000_000  # microseconds


def ids_of(*names: bytes) -> np.ndarray:
    return np.array([name.ljust(16, b"\0") for name in names], dtype="S16")


def test_erased_identities_are_found_with_the_places_that_brought_them() -> None:
    rows = [
        ErasedRow(hash_identity(KEY, b"b"), unit=2, line=7, hour=1),
        ErasedRow(hash_identity(KEY, b"b"), unit=3, line=1, hour=1),
        ErasedRow(hash_identity(KEY, b"c"), unit=2, line=8, hour=1),
    ]
    erased = ErasedRows.of(KEY, rows)
    positions, found = erased.find(ids_of(b"a", b"b", b"c"), np.full(3, HOUR))
    assert positions.tolist() == [1, 1, 2]
    places = zip(erased.units[found].tolist(), erased.lines[found].tolist(), strict=True)
    assert sorted(places) == [(2, 7), (2, 8), (3, 1)]


def test_identities_of_other_hours_are_not_hashed() -> None:
    erased = ErasedRows.of(KEY, [ErasedRow(hash_identity(KEY, b"a"), 1, 1, hour=1)])
    positions, _ = erased.find(ids_of(b"a", b"a"), np.array([HOUR - 1, 2 * HOUR - 1]))
    assert positions.tolist() == [1]


def test_another_key_finds_nothing() -> None:
    erased = ErasedRows.of(b"x" * 32, [ErasedRow(hash_identity(KEY, b"a"), 1, 1, hour=0)])
    assert erased.find(ids_of(b"a"), np.zeros(1, dtype="i8"))[0].tolist() == []


def test_hours_before_1970_are_negative() -> None:
    assert hours_of(np.array([-1, 0, HOUR])).tolist() == [-1, 0, 1]
