"""Necessary conditions: what a row must contain for a condition to have a given truth. No I/O.

A condition's necessary condition is a tree over *anchors*, each of which an index looks up for all
rows at once. From the tree a set of anchors is chosen: if a row has none of them, the condition does
not hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple


class Anchor(NamedTuple):
    """A column and a constant.

    `kind`: `contains` and `equals` hold for a text that, folded, contains or equals the constant,
    which is folded too; `number` for a number or truth value that equals the constant; `above` and
    `below` for a number that is not less or not greater.
    """

    column: str
    kind: Literal["contains", "equals", "number", "above", "below"]
    constant: str | int | float


@dataclass(frozen=True)
class AllOf:
    """Each of the parts must hold."""

    parts: tuple["Necessary", ...]


@dataclass(frozen=True)
class AnyOf:
    """One of the parts must hold; without parts no row can."""

    parts: tuple["Necessary", ...]


Necessary = Anchor | AllOf | AnyOf | None
"""None: nothing is necessary."""

_SIGNS = {"number": "=", "above": ">=", "below": "<="}

Frequency = Callable[[Anchor], float]  # the share of rows that have an anchor


class Choice(NamedTuple):
    """Anchors of which a row must have one, and the sum of their frequencies."""

    anchors: frozenset[Anchor]
    frequency: float


def all_of(parts: Sequence[Necessary]) -> Necessary:
    """What is necessary for several conditions at once."""
    present = tuple(part for part in parts if part is not None)
    if len(present) <= 1:
        return present[0] if present else None
    return AllOf(present)


def any_of(parts: Sequence[Necessary]) -> Necessary:
    """What is necessary for one of several conditions."""
    if any(part is None for part in parts):
        return None
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))


def choose(necessary: Necessary, frequency: Frequency) -> Choice | None:
    """The anchors by which the fewest rows are candidates; None: every row is one."""
    if necessary is None:
        return None
    if isinstance(necessary, Anchor):
        return Choice(frozenset((necessary,)), frequency(necessary))
    choices = [choose(part, frequency) for part in necessary.parts]
    if isinstance(necessary, AllOf):
        present = [choice for choice in choices if choice is not None]
        return min(present, key=lambda choice: choice.frequency, default=None)
    anchors: set[Anchor] = set()
    total = 0.0
    for choice in choices:
        if choice is None:
            return None
        anchors |= choice.anchors
        total += choice.frequency
    return Choice(frozenset(anchors), total)


def anchors_in(necessary: Necessary) -> set[Anchor]:
    """All anchors of a necessary condition."""
    if necessary is None:
        return set()
    if isinstance(necessary, Anchor):
        return {necessary}
    anchors: set[Anchor] = set()
    for part in necessary.parts:
        anchors |= anchors_in(part)
    return anchors


def describe(necessary: Necessary) -> str:
    """A necessary condition as text."""
    if necessary is None:
        return "every row is a candidate"
    if isinstance(necessary, Anchor):
        sign = _SIGNS.get(necessary.kind, necessary.kind)
        return f"{necessary.column} {sign} {necessary.constant!r}"
    parts = list(map(describe, necessary.parts))
    if isinstance(necessary, AllOf):
        return " and ".join(parts)
    return f"({' or '.join(parts)})"
