"""Alerts from the events of a rule, by columns: equal to `fold_alerts`. No I/O."""

from typing import NamedTuple

import numpy as np

from archiver.times import Micros, MicrosArray
from moirae.alerts.event_columns import Positions
from moirae.alerts.lifecycle import AlertTiming

UNSET = np.iinfo(np.int64).min
"""In place of a time: has not fired, or has not ended."""


class LifetimeColumns(NamedTuple):
    """Lifetimes of alerts, one element for each.

    `first`: the position of the first event among those that were folded. The others are those of
    `AlertLifetime`.
    """

    first: Positions
    starts: MicrosArray
    last: MicrosArray
    events: Positions
    fired: MicrosArray
    ended: MicrosArray

    def select(self, positions: Positions) -> "LifetimeColumns":
        """The lifetimes at some positions."""
        return LifetimeColumns(*(column[positions] for column in self))


def fold_columns(
    times: MicrosArray, key_numbers: Positions, timing: AlertTiming, horizon: Micros | None
) -> LifetimeColumns:
    """The alerts of all events of a rule, by key and start. `horizon`: see `fold_events`.

    Events of one key and time are in the order of their IDs.
    """
    order = np.lexsort((times, key_numbers))
    times, key_numbers = times[order], key_numbers[order]
    is_first = np.ones(len(times), bool)
    is_new_key = key_numbers[1:] != key_numbers[:-1]
    is_first[1:] = is_new_key | (np.diff(times) > timing.keep_firing_for)
    first = np.flatnonzero(is_first)
    next_first = np.append(first, len(times))[1:]
    starts, last, events = times[first], times[next_first - 1], next_first - first
    ends = last + timing.keep_firing_for
    is_over = np.ones(len(first), bool)
    is_last_of_key = np.append(is_new_key, True)[next_first - 1]
    is_over[is_last_of_key] = False
    if horizon is not None:
        is_over |= ends < horizon
    return LifetimeColumns(
        first=order[first],
        starts=starts,
        last=last,
        events=events,
        fired=_find_fired(times, first, events, timing.for_),
        ended=np.where(is_over, ends, UNSET),
    )


def _find_fired(
    times: MicrosArray, first: Positions, events: Positions, for_: Micros
) -> MicrosArray:
    """When alerts fired: at the first event that is `for` after their start."""
    if for_ == 0 or not len(first):
        return times[first]
    is_pending = times - np.repeat(times[first], events) < for_
    pending = np.add.reduceat(is_pending, first, dtype=np.int64)
    at = np.minimum(first + pending, len(times) - 1)
    return np.where(pending < events, times[at], UNSET)
