"""Classify decoded rows: new, replayed, duplicate or in conflict; on time or late. No I/O."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from archiver.times import Micros

READING_DTYPE = np.dtype(
    [("row", "i8"), ("declaration", "i4"), ("id", "S16"), ("hash", "i8"), ("ts", "i8")]
)
"""A row as an earlier declaration of its stream reads it: identity, content and event time."""

Array = npt.NDArray[Any]
_BEGINNING = np.iinfo(np.int64).min // 2  # before any event time

RowClass = Literal["new", "replayed", "duplicate", "conflict"]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowClassification:
    """Masks over the classified rows; each row is set in exactly one of them.

    `new`: to be archived. `replayed`: archived by an earlier read of the same line. `duplicate`:
    same identity and content as an archived row of another line. `conflict`: same identity, other
    content. `erased_again`: of the duplicates, those of a row that was erased.
    """

    new: Mask
    replayed: Mask
    duplicate: Mask
    conflict: Mask
    erased_again: Mask


def distinct_integers(values: Array) -> list[int]:
    """The distinct values of small integers from 0 on, ascending, without sorting all values."""
    distinct: list[int] = np.flatnonzero(np.bincount(values)).tolist()
    return distinct


def flag_late(ts: Array, bound: Micros | None) -> Mask:
    """Mask of rows whose event time is before `bound`; none if that is None."""
    if bound is None:
        return np.zeros(len(ts), dtype=bool)
    return np.asarray(ts < bound)


def flag_late_in_order(
    ts: Array, newest: Micros | None, lateness: Micros, bound: Micros | None, is_ahead: Mask
) -> Mask:
    """Mask of rows that are late compared with the rows before them.

    A row is late before `bound`, or before the newest preceding event time minus `lateness`.
    `newest`: the newest event time before the first row, None if there was none. `is_ahead`: rows
    that others are not compared with.
    """
    first = _BEGINNING if newest is None else newest
    preceding = np.where(is_ahead, _BEGINNING, ts)[:-1]
    bounds = np.maximum.accumulate(np.concatenate([[first], preceding]))[: len(ts)] - lateness
    if bound is not None:
        bounds = np.maximum(bounds, bound)
    return np.asarray(ts < bounds)


def latest(*event_times: Micros | None) -> Micros | None:
    """The latest of the event times that are not None; None if all are."""
    return max((ts for ts in event_times if ts is not None), default=None)


def late_bound(newest: Micros | None, lateness: Micros, advanced: Micros | None) -> Micros | None:
    """Rows before the returned event time are late; None: no row is.

    `newest`: the newest event time of all earlier units. `advanced`: where the stream was advanced
    to without data.
    """
    if newest is None:
        return advanced
    return latest(newest - lateness, advanced)


@dataclass
class ArchivedMatches:
    """The archived rows that have the identities of the rows in `entries`.

    `archived`: the index entry of the archived row where `is_archived` is set, zeros elsewhere. Its
    hash equals that of the row exactly if the content is the same. `is_erased`: where that row was
    erased since: whatever the content of the new one is, it counts as the same.
    """

    entries: Array
    is_archived: Mask
    archived: Array
    is_erased: Mask

    @classmethod
    def none_of(cls, entries: Array) -> "ArchivedMatches":
        """No archived row."""
        nowhere = np.zeros(len(entries), dtype=bool)
        return cls(entries, nowhere, np.zeros_like(entries), nowhere.copy())

    def record(self, rows: Array, archived: Array) -> None:
        """Record archived rows of the identities of some rows, given by position.

        A row that equals an archived one already stays so: another declaration may not read it so.
        """
        is_equal = self.is_archived[rows] & (
            self.archived["hash"][rows] == self.entries["hash"][rows]
        )
        rows, archived = rows[~is_equal], archived[~is_equal]
        self.is_archived[rows] = True
        self.archived[rows] = archived

    def record_earlier(self, readings: Array, archived: Array) -> None:
        """Record rows archived under an earlier declaration, which has these readings of them.

        That declaration decides whether the content is the same.
        """
        rows = readings["row"]
        contents = self.entries["hash"][rows]
        archived = archived.copy()
        archived["hash"] = np.where(readings["hash"] == archived["hash"], contents, ~contents)
        self.record(rows, archived)

    def record_erased(self, rows: Array, units: Array, lines: Array) -> None:
        """Record that the archived rows of some rows, given by position, were erased.

        `units`, `lines`: where each of them was read.
        """
        self.is_archived[rows] = True
        self.is_erased[rows] = True
        self.archived["hash"][rows] = self.entries["hash"][rows]
        self.archived["unit"][rows] = units
        self.archived["line"][rows] = lines


def classify(
    rows: Array, is_archived: Mask, archived_entries: Array, is_erased: Mask | None = None
) -> RowClassification:
    """Compare rows (index entries, in arrival order) with archived rows of the same identity.

    `archived_entries`: the entry of the archived row, where `is_archived` is set. `is_erased`: where
    it was erased; None: nowhere. Among rows of one identity in one call, the first counts as archived
    before the rest.
    """
    leader = _find_first_positions(rows["id"])
    is_leader = leader == np.arange(len(rows))
    reference_hash = np.where(is_archived, archived_entries["hash"], rows["hash"][leader])
    same_content = rows["hash"] == reference_hash
    same_unit = archived_entries["unit"] == rows["unit"]
    same_line = archived_entries["line"] == rows["line"]
    replayed = is_archived & same_content & same_unit & same_line
    new = ~is_archived & is_leader
    duplicate = same_content & ~replayed & ~new
    return RowClassification(
        new=new,
        replayed=replayed,
        duplicate=duplicate,
        conflict=~same_content,
        erased_again=np.zeros_like(duplicate) if is_erased is None else duplicate & is_erased,
    )


def _find_first_positions(ids: Array) -> Array:
    """The position of the first row with the identity of each row."""
    # Usually no identity is repeated: numbers are sorted many times faster than 16 bytes.
    halves = np.ascontiguousarray(ids).view("u8")[::2]
    ordered = np.sort(halves)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(len(ids))
    _, first_positions, group = np.unique(ids, return_index=True, return_inverse=True)
    return np.asarray(first_positions[group])
