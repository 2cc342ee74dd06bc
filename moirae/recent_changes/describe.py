"""Says in words what is known of a change before an alert. It names no cause. No I/O."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from archiver.times import format_duration, from_micros
from moirae.recent_changes.ranking import RankedChange
from moirae.recent_changes.statistics import HourCounts


def describe_change(entry: RankedChange, ts: datetime) -> str:
    """One sentence. `ts`: event time of the alert."""
    return "; ".join(_list_parts(entry, ts))


def _list_parts(entry: RankedChange, ts: datetime) -> Iterator[str]:
    location = ", ".join(f"{name} {value}" for name, value in entry.change.place.items())
    steps = f", {entry.steps} step{'s' * (entry.steps > 1)} away" if entry.steps else ""
    ago = _format_age(ts - from_micros(entry.change.ts))
    yield f"{entry.change.what} ({location or 'everywhere'}{steps}) {ago} before"
    if entry.similar:
        yield f"so before {entry.similar_with_change} of the {entry.similar} most similar alerts"
    hours = entry.hours
    if not isinstance(hours, HourCounts):
        yield f"not compared with other hours: {hours}"
        return
    yield (
        f"before {hours.with_change:,} of {hours.alert_hours:,} hours with an alert, and before "
        f"{_percent(hours.other_share)} of {hours.other_hours:,} without"
    )
    if hours.ratio is not None:
        yield f"ratio {hours.ratio:.3g} (95 %: {hours.low:.2g} to {hours.high:.2g})"


def _format_age(age: timedelta) -> str:
    """In whole minutes; below one in seconds."""
    unit = timedelta(minutes=1) if age >= timedelta(minutes=1) else timedelta(seconds=1)
    return format_duration(age // unit * unit)


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or not percent else f"{percent:.1f} %"
