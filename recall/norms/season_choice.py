"""The season of `season: auto`: the one that describes held-back days best. No I/O.

The last quarter of the days is held back. Each season predicts the rows of these by the 95 %
interval of the same hour of the days before. The loss is the interval score of Gneiting and Raftery
(JASA 2007): the width of the interval, and 40 times how far a value lies beyond it. A longer season
is chosen if it loses at least 5 % less than a shorter one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archiver.times import Micros
from recall.history_ranges import DAY
from recall.norms.cycles import Times, find_cycles
from recall.norms.model import Season
from recall.norms.position import MIN_CYCLES, Values

_MIN_GAIN = 0.05
_HELD_BACK_SHARE = 4  # one of so many days
_MIN_DAYS = MIN_CYCLES + 2
_TAIL = 0.025
_SEASONS: tuple[Season, ...] = ("none", "hour_of_day", "hour_of_week")
_MIN_ROWS = 4  # of an hour of the days before, without which it predicts nothing


@dataclass(frozen=True)
class SeasonChoice:
    """A season, and the reason for it as a sentence."""

    season: Season
    reason: str


def choose_season(
    zone: str, times: Times, local: Times, values: Values, event_ts: Micros
) -> SeasonChoice:
    """`times`, `local`, `values`: of the rows that count, apart from those of past alerts."""
    days = (times - event_ts) // DAY
    day_count = int(-days.min()) if len(days) else 0
    if day_count < _MIN_DAYS:
        return SeasonChoice("none", f"{_days(day_count)} of history are too few to compare seasons")
    held_back = max(1, day_count // _HELD_BACK_SHARE)
    is_held = days >= -held_back
    losses: dict[Season, float] = {}
    for season in _SEASONS:
        cycles = find_cycles(season, zone, times, local, event_ts)
        if len(np.unique(cycles.numbers[~is_held])) >= MIN_CYCLES:
            losses[season] = _loss(cycles.hours, values, is_held)
    losses = {season: loss for season, loss in losses.items() if np.isfinite(loss)}
    chosen: Season = "none"
    for season in losses:
        if losses[season] < (1 - _MIN_GAIN) * losses.get(chosen, np.inf):
            chosen = season
    return SeasonChoice(chosen, _explain(chosen, losses, held_back))


def _loss(hours: Times, values: Values, is_held: npt.NDArray[np.bool_]) -> float:
    """The mean loss of held-back rows; those whose hour has too few rows before are left out."""
    losses: list[Values] = []
    past_hours, past_values = hours[~is_held], values[~is_held]
    order = np.lexsort((past_values, past_hours))
    past_hours, past_values = past_hours[order], past_values[order]
    held_hours, held_values = hours[is_held], values[is_held]
    for hour in np.unique(held_hours):
        first, end = np.searchsorted(past_hours, [hour, hour + 1])
        if end - first < _MIN_ROWS:
            continue
        low, high = np.quantile(past_values[first:end], (_TAIL, 1 - _TAIL))
        predicted = held_values[held_hours == hour]
        outside = np.maximum(0, low - predicted) + np.maximum(0, predicted - high)
        losses.append(high - low + 2 / (2 * _TAIL) * outside)
    return float(np.mean(np.concatenate(losses))) if losses else np.inf


def _explain(chosen: Season, losses: Mapping[Season, float], held_back: int) -> str:
    if not losses:
        return "no season has enough earlier rows to be compared"
    compared = []
    for season, loss in losses.items():
        if season == chosen:
            continue
        if not loss:
            compared.append(f"no better than {_name(season)}")
            continue
        gain = 1 - losses[chosen] / loss
        word = "better" if gain >= 0 else "worse"
        compared.append(f"{abs(gain):.0%} {word} than {_name(season)}".replace("%", " %"))
    missing = [_name(season) for season in _SEASONS if season not in losses]
    reason = f"{_name(chosen)} predicted the last {_days(held_back)} "
    reason += " and ".join(compared) if compared else "as the only season with enough history"
    if missing and compared:
        reason += f"; there is too little history for {' and '.join(missing)}"
    return reason


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def _name(season: Season) -> str:
    return "no season" if season == "none" else f"the {season.replace('_of_', ' of the ')}"
