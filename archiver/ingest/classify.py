"""What becomes of each decoded row: archived, a repetition, or refused. Pure."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from archiver.delta import Array

RowClass = Literal["new", "again", "duplicate", "conflict"]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowClassification:
    """One flag a row. `new`: to be archived now; `again`: was archived by an earlier reading of this same line."""

    new: Mask
    replayed: Mask
    duplicate: Mask
    conflict: Mask


def flag_late(ts: Array, bound: int | None) -> Mask:
    """Rows behind what earlier units of the stream, or an advance without data, have settled (microseconds)."""
    return np.zeros(len(ts), dtype=bool) if bound is None else np.asarray(ts < bound)


def flag_late_in_order(ts: Array, newest: int | None, lateness: int, bound: int | None) -> Mask:
    """Rows of a source where each is held against all before it: behind `bound`, or the newest of them less `lateness`.

    `newest`: of the rows before the first of these.
    """
    if not len(ts):
        return np.zeros(0, dtype=bool)
    first = int(ts[0]) if newest is None else newest
    before = np.maximum.accumulate(np.concatenate([[first], ts[:-1]])) - lateness
    return np.asarray(ts < (before if bound is None else np.maximum(before, bound)))


def late_bound(newest: int | None, lateness: int, advanced: int | None) -> int | None:
    """Rows before this event time are late: `newest` of all earlier units less `lateness`, or the advance."""
    bounds = [b for b in (None if newest is None else newest - lateness, advanced) if b is not None]
    return max(bounds, default=None)


def classify(rows: Array, is_archived: Mask, archived_entries: Array) -> RowClassification:
    """Hold rows (index entries, in arrival order) against the archived entries of the same identity.

    Among rows of one call the first of an identity counts as archived before the others.
    """
    _, first, which = np.unique(rows["id"], return_index=True, return_inverse=True)
    leader = first[which]
    is_leader = leader == np.arange(len(rows))
    reference_hash = np.where(is_archived, archived_entries["hash"], rows["hash"][leader])
    same = rows["hash"] == reference_hash
    again = (
        is_archived
        & same
        & (archived_entries["unit"] == rows["unit"])
        & (archived_entries["line"] == rows["line"])
    )
    new = ~is_archived & is_leader
    return RowClassification(new, again, same & ~again & ~new, ~same)
