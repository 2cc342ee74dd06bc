"""A repeated delivery of an erased row is a duplicate, whatever its content is."""

import numpy as np

from archiver.delta import ErasedRow, ErasedRows, build_entries, hash_identity
from archiver.ingest.classify import READING_DTYPE, ArchivedMatches, classify
from archiver.ingest.erased_again import record_erased

KEY = b"k" * 32
NO_READINGS = np.empty(0, dtype=READING_DTYPE)


def classify_rows(erased: ErasedRows, *rows: tuple[bytes, int, int, int]):  # type: ignore[no-untyped-def]
    ids, hashes, units, lines = zip(*rows, strict=True)
    entries = build_entries(
        [row_id.ljust(16, b"-") for row_id in ids],
        np.array(hashes),
        np.array(units),
        np.array(lines),
    )
    matches = ArchivedMatches.none_of(entries)
    record_erased(matches, erased, np.zeros(len(rows), dtype="i8"), NO_READINGS)
    return classify(entries, matches.is_archived, matches.archived, matches.is_erased)


def erased_row(name: bytes, unit: int, line: int) -> ErasedRow:
    return ErasedRow(hash_identity(KEY, name.ljust(16, b"-")), unit, line, hour=0)


def test_erased_row_with_other_content_is_a_duplicate() -> None:
    erased = ErasedRows.of(KEY, [erased_row(b"a", 1, 1)])
    result = classify_rows(erased, (b"a", 5, 9, 1), (b"a", 6, 9, 2), (b"b", 5, 9, 3))
    assert result.duplicate.tolist() == [True, True, False]
    assert result.erased_again.tolist() == [True, True, False]
    assert result.new.tolist() == [False, False, True]
    assert not result.conflict.any()


def test_the_same_line_of_the_same_unit_is_replayed() -> None:
    erased = ErasedRows.of(KEY, [erased_row(b"a", 1, 1), erased_row(b"a", 2, 4)])
    result = classify_rows(erased, (b"a", 5, 2, 4))
    assert result.replayed.tolist() == [True]
    assert result.erased_again.tolist() == [False]


def test_rows_read_under_an_earlier_declaration_are_found() -> None:
    erased = ErasedRows.of(KEY, [erased_row(b"old", 1, 1)])
    entries = build_entries([b"new".ljust(16, b"-")], np.array([1]), np.array([3]), np.array([1]))
    matches = ArchivedMatches.none_of(entries)
    readings = np.array([(0, 0, b"old".ljust(16, b"-"), 1, 0)], dtype=READING_DTYPE)
    record_erased(matches, erased, np.zeros(1, dtype="i8"), readings)
    assert matches.is_erased.tolist() == [True]
