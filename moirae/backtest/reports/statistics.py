"""How often alerts fire: by day, hour and label, and the quiet and noisy spans. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from moirae.backtest.alerts import BacktestAlert

_MAX_VALUES = 10  # values of a label that are counted apart
_NOISY_SPAN = timedelta(hours=1)


class Span(NamedTuple):
    """A span of event time, and how many alerts fire in it."""

    start: datetime
    end: datetime
    alerts: int


@dataclass(frozen=True)
class Statistics:
    """Of the alerts that are shown. Days and hours are in UTC.

    `by_day` has each day of the range. `by_label`: the most frequent values of each label.
    `quietest`: the longest span in which none fires. `noisiest`: the hour in which most do.
    """

    alerts: int
    by_day: Mapping[str, int]
    by_hour: Sequence[int]
    by_label: Mapping[str, Mapping[str, int]]
    quietest: Span
    noisiest: Span | None


def count_alerts(alerts: Sequence[BacktestAlert], start: datetime, end: datetime) -> Statistics:
    """`start`, `end`: of the range that was tested."""
    shown = [alert for alert in alerts if alert.is_shown]
    times = sorted(alert.fired_at.astimezone(UTC) for alert in shown if alert.fired_at is not None)
    days = Counter(moment.date().isoformat() for moment in times)
    by_day: dict[str, int] = {}
    day = start.astimezone(UTC).date()
    while day <= max([end, *times]).astimezone(UTC).date():
        by_day[day.isoformat()] = days[day.isoformat()]
        day += timedelta(days=1)
    hours = Counter(moment.hour for moment in times)
    values: dict[str, Counter[str]] = {}
    for alert in shown:
        for name, value in alert.labels.items():
            values.setdefault(name, Counter())[value] += 1
    quiet_from, quiet_to = max(
        pairwise([start, *times, max([end, *times])]), key=lambda pair: pair[1] - pair[0]
    )
    return Statistics(
        alerts=len(shown),
        by_day=by_day,
        by_hour=[hours[hour] for hour in range(24)],
        by_label={name: dict(counts.most_common(_MAX_VALUES)) for name, counts in values.items()},
        quietest=Span(quiet_from, quiet_to, 0),
        noisiest=_find_noisiest(times),
    )


def _find_noisiest(times: Sequence[datetime]) -> Span | None:
    """`times`: ascending."""
    noisiest: Span | None = None
    first = 0
    for last, moment in enumerate(times):
        while moment - times[first] >= _NOISY_SPAN:
            first += 1
        count = last - first + 1
        if noisiest is None or count > noisiest.alerts:
            noisiest = Span(times[first], times[first] + _NOISY_SPAN, count)
    return noisiest
