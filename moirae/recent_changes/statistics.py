"""How often changes of one kind came before alerts, and how often before other hours. No I/O.

The hours of all keys of a rule are compared: those in which an alert of the key began, and those
without an active one. An hour has the change if one of the kind, near the key, came within a span before it.

Alerts of many keys in one hour, and hours after one change, are not independent. So for the
interval, the alerts of an hour count as one, and so do all hours after one change.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archiver.times import Micros

HOUR: Micros = 3_600_000_000
MIN_OTHER_HOURS = 10
"""For each hour with an alert, so many without one are needed for a comparison."""
_NORMAL_QUANTILE = 1.959963984540054  # of 97.5 %

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyHistory:
    """A key of a rule: when its alerts began and ended, and the changes of one kind near it.

    `alerts` and `changes` are sorted; in microseconds.
    """

    alerts: Times
    ends: Times
    changes: Times


@dataclass(frozen=True)
class HourCounts:
    """Shares of hours that have a change of the kind. `ratio`: the first share ÷ the second.

    `low`, `high`: its 95 % interval, after Katz et al., "Obtaining confidence intervals for the
    risk ratio in cohort studies" (Biometrics 34, 1978), with half an hour added to each count.
    `ratio` is None where no other hour has such a change.
    """

    alert_hours: int
    with_change: int
    other_hours: int
    other_with_change: int
    ratio: float | None
    low: float
    high: float

    @property
    def other_share(self) -> float:
        """The share of hours without an alert that have such a change."""
        return self.other_with_change / self.other_hours


def compare_hours(
    histories: Sequence[KeyHistory], start: Micros, end: Micros, within: Micros
) -> HourCounts | str:
    """Compare the hours of all keys in [start, end); or say why they cannot be compared."""
    count = max(0, (end - start) // HOUR)
    hours = start + HOUR * np.arange(count, dtype=np.int64)
    alert_hours = with_change = other_hours = other_with_change = 0
    shares: dict[int, list[bool]] = {}
    """By hour: for each key with an alert in it, whether it has the change."""
    exposing: set[int] = set()
    """The changes that came before hours without an alert."""
    for history in histories:
        inside = history.alerts[(history.alerts >= start) & (history.alerts < start + count * HOUR)]
        numbers, first = np.unique((inside - start) // HOUR, return_index=True)
        exposed = _has_change(history.changes, inside[first], within)
        for number, is_exposed in zip(numbers.tolist(), exposed.tolist(), strict=True):
            shares.setdefault(number, []).append(is_exposed)
        alert_hours += len(numbers)
        with_change += int(exposed.sum())
        middles = hours[~_overlapped(hours, history)] + HOUR // 2
        is_exposed_other = _has_change(history.changes, middles, within)
        other_hours += len(middles)
        other_with_change += int(is_exposed_other.sum())
        newest = np.searchsorted(history.changes, middles[is_exposed_other], side="right") - 1
        exposing.update(history.changes[newest].tolist())
    if not other_hours:
        return "alerts and changes are known for less than an hour"
    if not alert_hours:
        return "no earlier alert of this rule"
    if other_hours < MIN_OTHER_HOURS * alert_hours:
        return f"fewer than {MIN_OTHER_HOURS} hours without an alert for each one with"
    episodes = sum(map(np.mean, shares.values()))
    low, high = _interval(
        float(episodes), len(shares), len(exposing), other_with_change / other_hours, other_hours
    )
    share = other_with_change / other_hours
    ratio = with_change / alert_hours / share if share else None
    return HourCounts(alert_hours, with_change, other_hours, other_with_change, ratio, low, high)


def _overlapped(hours: Times, history: KeyHistory) -> npt.NDArray[np.bool_]:
    """The hours in which an alert of the key was active."""
    begun = np.searchsorted(history.alerts, hours + HOUR, side="left")
    ended = np.searchsorted(np.sort(history.ends), hours, side="left")
    return begun > ended


def _has_change(changes: Times, times: Times, within: Micros) -> npt.NDArray[np.bool_]:
    """Whether a change came in the span before each time."""
    after = np.searchsorted(changes, times, side="right")
    before = np.searchsorted(changes, times - within, side="right")
    return after > before


def _interval(
    episodes_with: float, episodes: int, changes: int, share: float, hours: int
) -> tuple[float, float]:
    """Low and high of the ratio. `changes`: that came before other hours, of which they have `share`."""
    independent = changes / share if changes else hours
    first, second = (episodes_with + 0.5) / (episodes + 0.5), (changes + 0.5) / (independent + 0.5)
    variance = (
        1 / (episodes_with + 0.5)
        - 1 / (episodes + 0.5)
        + 1 / (changes + 0.5)
        - 1 / (independent + 0.5)
    )
    width = _NORMAL_QUANTILE * math.sqrt(max(0.0, variance))
    ratio = math.log(first / second)
    return math.exp(ratio - width), math.exp(ratio + width)


def count_preceded(times: Sequence[Micros], changes: Sequence[Times], within: Micros) -> int:
    """How many of some alerts a change came before. `changes`: near each of them, sorted."""
    return sum(
        bool(_has_change(own, np.array([time], dtype=np.int64), within)[0])
        for time, own in zip(times, changes, strict=True)
    )
