"""What a norm says of a value, as a sentence for the person who reads the alert. No I/O."""

import math

import numpy as np

from archiver.times import Micros
from recall.history_ranges import DAY, HOUR
from recall.norms.exclusions import Exclusions
from recall.norms.model import MAX_ROWS, Exclusion, Season
from recall.norms.position import MIN_CYCLES, Values

_SEASON_NAMES: dict[Season, str] = {
    "none": "all values",
    "hour_of_day": "the same hour",
    "hour_of_week": "the same hour of the week",
}
_CYCLE_NAMES: dict[Season, str] = {"none": "day", "hour_of_day": "day", "hour_of_week": "week"}
# Share of the range from which on rows are said to be of all of it.
_NEARLY_ALL = 0.9
_UNITS = ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (HOUR // 60, "minute"))


def describe_position(value: float, values: Values, season: Season) -> str:
    """Such as "higher than 99.3 % of the same hour"."""
    lower, higher = float(np.mean(values < value)), float(np.mean(values > value))
    word, share = ("higher", lower) if lower >= higher else ("lower", higher)
    compared = _SEASON_NAMES[season]
    if not share:
        return f"equal to {compared}"
    if share == 1:
        return f"{word} than ever" if season == "none" else f"{word} than ever at {compared}"
    # Rounded down: 99.97 % are not all.
    return f"{word} than {math.floor(share * 1_000) / 10:g} % of {compared}"


def describe_seen(seen: int, with_alert: int, length: str) -> str:
    """Such as "seen 4 times in 8 weeks, each time with an alert"; `length` is that of the history."""
    if not seen:
        return f"not seen in {length}"
    text = f"seen {_count_times(seen)} in {length}"
    if not with_alert:
        return f"{text}, without an alert"
    if seen == 1:
        return f"{text}, with an alert"
    if with_alert == seen:
        return f"{text}, each time with an alert"
    return f"{text}, {_count_times(with_alert)} with an alert"


def describe_cycles(cycles: int, season: Season) -> str:
    """On how many cycles a norm rests."""
    unit = _CYCLE_NAMES[season]
    if cycles < MIN_CYCLES:
        return f"too few cycles: {_count(cycles, unit)} of at least {MIN_CYCLES}"
    return f"over {_count(cycles, unit)}"


def describe_exclusions(exclusions: Exclusions, exclude: Exclusion) -> list[str]:
    """Which spans of the past are left out, and which count again and why."""
    noun = "past incident" if exclude == "incidents" else "past alert"
    parts: list[str] = []
    if exclusions.left_out:
        parts.append(f"{_count(len(exclusions.left_out), noun)} left out")
    reasons = (
        (exclusions.lasting, "longer than a tenth of the range"),
        (exclusions.no_action, "resolved as no action needed"),
        (exclusions.too_few, "too few cycles would remain"),
    )
    for number, reason in reasons:
        if number:
            verb = "counts" if number == 1 else "count"
            parts.append(f"{_count(number, noun)} {verb} again ({reason})")
    return parts


def describe_history(span: Micros, rows_span: Micros) -> str:
    """How long the history is: `span` as the rule says, or that of the rows, if it is shorter."""
    if rows_span >= _NEARLY_ALL * span:
        return describe_length(span)
    for size, _ in _UNITS:
        if rows_span >= size:
            return describe_length(rows_span // size * size)
    return describe_length(rows_span)


def describe_missing(value: float | None) -> str:
    """Why the value of an event has no place among the others. `value`: None or NaN."""
    return "the event has no value" if value is None else "the event's value is not a number (NaN)"


def describe_limit() -> str:
    """Of an answer from which older rows were left out."""
    return f"of the newest {MAX_ROWS:,} rows alone"


def describe_length(span: Micros) -> str:
    """A duration in the largest unit that divides it."""
    for size, unit in _UNITS:
        if span % size == 0:
            return _count(span // size, unit)
    return f"{span / 1_000_000:g} seconds"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _count_times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
