"""Which spans of past alerts a norm leaves out, and which count again. No I/O.

What went wrong is not normal. But a change that lasts becomes normal: a span counts again once it
is longer than a tenth of the range, once its alert was resolved as needing no action, or where less
than half of the season's cycles would remain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from archiver.times import Micros
from recall.norms.cycles import Times
from recall.norms.model import AlertSpan, Exclusion

_LONGEST_SHARE = 10
"""A span longer than the range divided by this is a lasting change."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Exclusions:
    """`left_out`: spans without which the norm is computed. `rows`: which rows lie in one of them.

    Numbers of spans that count again: `lasting`, `no_action`, and `too_few` cycles without them.
    """

    left_out: tuple[AlertSpan, ...]
    rows: Mask
    lasting: int = 0
    no_action: int = 0
    too_few: int = 0

    @property
    def counted_again(self) -> int:
        """How many spans are not left out."""
        return self.lasting + self.no_action + self.too_few


def choose_exclusions(
    alerts: Sequence[AlertSpan],
    exclude: Exclusion,
    times: Times,
    cycles: Times,
    event_ts: Micros,
    span: Micros,
) -> Exclusions:
    """`times`, `cycles`: of the rows of the season. `span`: the length of the range."""
    candidates: list[AlertSpan] = []
    lasting = no_action = 0
    for alert in _list_spans(alerts, exclude):
        end = min(event_ts, alert.end if alert.end is not None else event_ts)
        if end < event_ts - span or alert.start >= event_ts:
            continue
        if alert.no_action:
            no_action += 1
        elif (end - alert.start) * _LONGEST_SHARE > span:
            lasting += 1
        else:
            candidates.append(alert)
    chosen, rows = _keep_half(candidates, times, cycles, event_ts)
    too_few = len(candidates) - len(chosen)
    return Exclusions(tuple(chosen), rows, lasting, no_action, too_few)


def _list_spans(alerts: Sequence[AlertSpan], exclude: Exclusion) -> Iterable[AlertSpan]:
    """The spans of alerts, or of their resolved incidents, each once."""
    if exclude == "alerts":
        return alerts
    if exclude == "none":
        return ()
    incidents: dict[tuple[Micros, Micros | None], AlertSpan] = {}
    for alert in alerts:
        if alert.incident is not None:
            span = incidents.setdefault(alert.incident, AlertSpan(*alert.incident, no_action=True))
            if not alert.no_action:
                incidents[alert.incident] = replace(span, no_action=False)
    return incidents.values()


def find_rows(alerts: Sequence[AlertSpan], times: Times, event_ts: Micros) -> Mask:
    """Which rows lie in the span of an alert, its end included."""
    inside = np.zeros(len(times), bool)
    for alert in alerts:
        end = event_ts if alert.end is None else alert.end
        inside |= (times >= alert.start) & (times <= end)
    return inside


def _keep_half(
    candidates: list[AlertSpan], times: Times, cycles: Times, event_ts: Micros
) -> tuple[list[AlertSpan], Mask]:
    """The spans that are left out: the longest ones count again until half of the cycles remain."""
    cycle_count = len(np.unique(cycles))
    shortest_first = sorted(candidates, key=lambda alert: (_length(alert, event_ts), alert.start))
    while True:
        rows = find_rows(shortest_first, times, event_ts)
        if 2 * len(np.unique(cycles[~rows])) >= cycle_count or not shortest_first:
            return shortest_first, rows
        shortest_first.pop()


def _length(alert: AlertSpan, event_ts: Micros) -> Micros:
    return (event_ts if alert.end is None else alert.end) - alert.start
