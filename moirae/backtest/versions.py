"""What another version of a rule changes: alerts that are new, gone or moved. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from archiver.times import Micros
from moirae.alerts import Positions
from moirae.backtest.alert_columns import AlertColumns
from moirae.backtest.alerts import BacktestAlert

_Labels = frozenset[tuple[str, str]]


class MovedAlert(NamedTuple):
    """An alert that starts, fires or ends at another time."""

    before: BacktestAlert
    after: BacktestAlert


@dataclass(frozen=True)
class VersionChange:
    """Of the alerts that are shown by one version or the other: by position, in order of start.

    `gone`, `moved_before`: of the alerts before. `moved_after`: in the order of `moved_before`.
    """

    before: AlertColumns
    after: AlertColumns
    unchanged: int
    new: Positions
    gone: Positions
    moved_before: Positions
    moved_after: Positions

    def list_new(self) -> list[BacktestAlert]:
        """The alerts that the version before does not have."""
        return self.after.make_alerts(self.new)

    def list_gone(self) -> list[BacktestAlert]:
        """The alerts that only the version before has."""
        return self.before.make_alerts(self.gone)

    def list_moved(self) -> list[MovedAlert]:
        """The alerts that both have at other times."""
        alerts = (
            self.before.make_alerts(self.moved_before),
            self.after.make_alerts(self.moved_after),
        )
        return [MovedAlert(*pair) for pair in zip(*alerts, strict=True)]


class _ShownAlert(NamedTuple):
    """`end`: beyond all times if it still fires."""

    position: int
    labels: _Labels
    start: Micros
    fired: Micros
    end: Micros


def compare_versions(before: AlertColumns, after: AlertColumns) -> VersionChange:
    """Alerts of the same labels are the same alert if they overlap: the pair that does first."""
    candidates: dict[_Labels, list[_ShownAlert]] = {}
    for alert in _list_shown(before):
        candidates.setdefault(alert.labels, []).append(alert)
    unchanged = 0
    gone: list[_ShownAlert] = []
    new: list[int] = []
    moved: list[tuple[int, int]] = []
    for alert in _list_shown(after):
        earlier = candidates.get(alert.labels, [])
        while earlier and earlier[0].end < alert.start:
            gone.append(earlier.pop(0))  # ended before all that follow, too
        same = next((other for other in earlier if _overlap(alert, other)), None)
        if same is None:
            new.append(alert.position)
            continue
        earlier.remove(same)
        if same[2:] == alert[2:]:
            unchanged += 1
        else:
            moved.append((same.position, alert.position))
    for remaining in candidates.values():
        gone += remaining
    gone.sort(key=lambda alert: alert.start)
    moved_before, moved_after = np.array(moved, np.int64).reshape(-1, 2).T
    return VersionChange(
        before=before,
        after=after,
        unchanged=unchanged,
        new=np.array(new, np.int64),
        gone=np.array([alert.position for alert in gone], np.int64),
        moved_before=moved_before,
        moved_after=moved_after,
    )


def _list_shown(alerts: AlertColumns) -> Iterator[_ShownAlert]:
    """By start, then by key."""
    shown = alerts.find_shown()
    labels: list[_Labels] = [_identify(values) for values in shown.labels]
    positions = alerts.shown
    starts = alerts.lifetimes.starts[positions]
    order = np.argsort(starts, kind="stable")
    columns = (positions, shown.label_numbers, starts, shown.fired, shown.ended)
    for position, number, start, fired, end in zip(
        *(column[order].tolist() for column in columns), strict=True
    ):
        yield _ShownAlert(position, labels[number], start, fired, end)


def _identify(labels: Mapping[str, str]) -> _Labels:
    return frozenset(labels.items())


def _overlap(alert: _ShownAlert, other: _ShownAlert) -> bool:
    return alert.start <= other.end and other.start <= alert.end
