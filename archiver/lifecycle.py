"""What becomes of chunks as event time moves on: present → recent → old → expired. Pure: values in, steps out.

A step is either a state, which holds for readers from the moment it is written, or work to be done for a chunk, which
takes its time, may be repeated, and is recorded when it is done.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from archiver.chunk import Chunk, State

# The Archiver's own work: rewriting files clustered by key and time; counting the rows of an expired chunk, so that the
# ledger stays true without them; deleting its files.
CLUSTER, COUNT, FORGET = "cluster", "count", "forget"


@dataclass(frozen=True)
class Policy:
    """`recent`: how many closed chunks are recent. `keep`: microseconds of event time behind the newest; None: for
    ever. `grace`: seconds by the clock from a chunk's expiry to the deletion of its files, in which those who found it
    just before come to name it as theirs."""

    recent: int
    keep: int | None
    grace: float


@dataclass(frozen=True)
class Need:
    """Work by name that is done once for each chunk in one of `states`; and again when rows have come late into it
    `again` times since (None: never)."""

    name: str
    states: frozenset[State]
    again: int | None = None


@dataclass(frozen=True)
class Kept:
    """A chunk with what the catalog knows of it. `version`: how often rows came late into it; `done`: the work that was
    done for it, at which version; `expired`: seconds by the clock since it expired."""

    chunk: Chunk
    version: int = 0
    done: Mapping[str, int] = field(default_factory=dict)
    expired: float = 0.0


@dataclass(frozen=True)
class Becomes:
    """A chunk's new state."""

    chunk: int
    state: State


@dataclass(frozen=True)
class Work:
    """Something to do for a chunk, at a version of it."""

    chunk: int
    name: str
    version: int


Step = Becomes | Work


def steps(
    kept: Sequence[Kept],
    policy: Policy,
    watermark: int | None,
    newest: int | None,
    needs: Sequence[Need],
    pinned: Collection[int] = (),
) -> list[Step]:
    """What is to be done now, states first, the newest chunk's work first.

    `watermark`: of all streams, `newest`: the furthest of any, both in microseconds of event time. `pinned`: chunks
    that running recalls may still read. A chunk goes through its states one by one, several at once if need be.
    """
    states = _states(kept, policy, watermark, newest)
    changed: list[Step] = [
        Becomes(k.chunk.id, state) for k in kept for state in _path(k.chunk.state, states[k.chunk.id])
    ]
    work: list[Step] = []
    for one in reversed(kept):
        now = replace(one, chunk=replace(one.chunk, state=states[one.chunk.id]))
        work += [Work(now.chunk.id, name, now.version) for name in _due(now, policy, needs, pinned)]
    return changed + work


def left(kept: Sequence[Kept]) -> Chunk | None:
    """The newest of the oldest chunks that are all gone, files and all; None: there is none."""
    gone = list(takewhile(lambda one: one.chunk.state == "expired" and FORGET in one.done, kept))
    return gone[-1].chunk if gone else None


_ORDER: tuple[State, ...] = ("present", "recent", "old", "expired")


def _path(before: State, after: State) -> tuple[State, ...]:
    return _ORDER[_ORDER.index(before) + 1 : _ORDER.index(after) + 1]


def _states(kept: Sequence[Kept], policy: Policy, watermark: int | None, newest: int | None) -> dict[int, State]:
    """The state that each chunk should have; none goes back."""
    states: dict[int, State] = {}
    closed = 0
    for one in reversed(kept):
        chunk = one.chunk
        ended = chunk.to_ts is not None and watermark is not None and chunk.to_ts <= watermark
        if chunk.state == "present" and not ended:
            states[chunk.id] = "present"
            continue
        closed += 1
        wanted: State = "recent" if closed <= policy.recent else "old"
        if policy.keep is not None and newest is not None and chunk.to_ts is not None:
            wanted = "expired" if chunk.to_ts <= newest - policy.keep else wanted
        states[chunk.id] = max(wanted, chunk.state, key=_ORDER.index)
    return states


def _due(one: Kept, policy: Policy, needs: Sequence[Need], pinned: Collection[int]) -> list[str]:
    if one.chunk.state == "expired":
        if COUNT not in one.done:
            return [COUNT]
        free = one.expired >= policy.grace and one.chunk.id not in pinned
        return [FORGET] if free and FORGET not in one.done else []
    return [need.name for need in needs if one.chunk.state in need.states and _lacks(one, need)]


def _lacks(one: Kept, need: Need) -> bool:
    done = one.done.get(need.name)
    return done is None or (need.again is not None and one.version - done >= need.again)
