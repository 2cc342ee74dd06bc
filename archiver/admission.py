"""What becomes of each decoded row: archived, a repetition, or refused. Pure."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from archiver.identity import Array

Verdict = Literal["new", "again", "duplicate", "conflict"]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Verdicts:
    """One flag a row. `new`: to be archived now; `again`: was archived by an earlier reading of this same line."""

    new: Mask
    again: Mask
    duplicate: Mask
    conflict: Mask


def late(ts: Array, bound: int | None) -> Mask:
    """Rows behind what earlier units of the stream, or an advance without data, have settled (microseconds)."""
    return np.zeros(len(ts), dtype=bool) if bound is None else np.asarray(ts < bound)


def late_in_order(ts: Array, newest: int | None, lateness: int, bound: int | None) -> Mask:
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


def judge(rows: Array, known: Mask, archived: Array) -> Verdicts:
    """Hold rows (index entries, in arrival order) against the archived entries of the same identity.

    Among rows of one call the first of an identity counts as archived before the others.
    """
    _, first, which = np.unique(rows["id"], return_index=True, return_inverse=True)
    leader = first[which]
    is_leader = leader == np.arange(len(rows))
    reference_hash = np.where(known, archived["hash"], rows["hash"][leader])
    same = rows["hash"] == reference_hash
    again = known & same & (archived["unit"] == rows["unit"]) & (archived["line"] == rows["line"])
    new = ~known & is_leader
    return Verdicts(new, again, same & ~again & ~new, ~same)


def column(table: Any, name: str) -> Array:
    """A column of whole microseconds as numpy."""
    return np.asarray(table[name].cast("int64").to_numpy())
