"""How often alerts fire: by day, hour and label, and the quiet and noisy spans. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from archiver.times import MicrosArray, duration_to_micros, from_micros, to_micros
from moirae.backtest.alert_columns import AlertColumns

_MAX_VALUES = 10  # values of a label that are counted apart
_DAY = duration_to_micros(timedelta(days=1))
_HOUR = duration_to_micros(timedelta(hours=1))
_NOISY_SPAN = _HOUR


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


def count_alerts(alerts: AlertColumns, start: datetime, end: datetime) -> Statistics:
    """`start`, `end`: of the range that was tested."""
    times = alerts.find_shown_times()
    range_end = max([to_micros(end), *times[-1:].tolist()])
    first_day = to_micros(start) // _DAY
    days = np.bincount(times // _DAY - first_day, minlength=range_end // _DAY - first_day + 1)
    by_label: dict[str, Mapping[str, int]] = {}
    for name, counts in alerts.count_labels().items():
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        by_label[name] = dict(frequent[:_MAX_VALUES])
    return Statistics(
        alerts=len(times),
        by_day={_format_day(first_day + day): count for day, count in enumerate(days.tolist())},
        by_hour=np.bincount(times % _DAY // _HOUR, minlength=24).tolist(),
        by_label=by_label,
        quietest=_find_quietest(np.array([to_micros(start), *times.tolist(), range_end])),
        noisiest=_find_noisiest(times),
    )


def _format_day(days: int) -> str:
    """The date of a number of days since 1970."""
    return from_micros(days * _DAY).date().isoformat()


def _find_quietest(times: MicrosArray) -> Span:
    """`times`: ascending, with the bounds of the range."""
    longest = int(np.argmax(np.diff(times)))
    return Span(from_micros(int(times[longest])), from_micros(int(times[longest + 1])), 0)


def _find_noisiest(times: MicrosArray) -> Span | None:
    """`times`: ascending."""
    if not len(times):
        return None
    first = np.searchsorted(times, times - _NOISY_SPAN, side="right")
    counts = np.arange(len(times)) - first + 1
    last = int(np.argmax(counts))
    start = int(times[first[last]])
    return Span(from_micros(start), from_micros(start + _NOISY_SPAN), int(counts[last]))
