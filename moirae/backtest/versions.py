"""What another version of a rule changes: alerts that are new, gone or moved. No I/O."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from moirae.backtest.alerts import BacktestAlert

_NEVER = datetime.max.replace(tzinfo=UTC)


class MovedAlert(NamedTuple):
    """An alert that starts, fires or ends at another time."""

    before: BacktestAlert
    after: BacktestAlert


class VersionChange(NamedTuple):
    """Of the alerts that are shown by one version or the other."""

    unchanged: int
    new: Sequence[BacktestAlert]
    gone: Sequence[BacktestAlert]
    moved: Sequence[MovedAlert]


def compare_versions(
    before: Sequence[BacktestAlert], after: Sequence[BacktestAlert]
) -> VersionChange:
    """Alerts of the same labels are the same alert if they overlap: the pair that does first."""
    candidates: dict[Any, list[BacktestAlert]] = {}
    for alert in sorted(_select_shown(before), key=_start):
        candidates.setdefault(_identify(alert), []).append(alert)
    unchanged = 0
    new: list[BacktestAlert] = []
    moved: list[MovedAlert] = []
    for alert in sorted(_select_shown(after), key=_start):
        earlier = candidates.get(_identify(alert), [])
        same = next((other for other in earlier if _overlap(alert, other)), None)
        if same is None:
            new.append(alert)
            continue
        earlier.remove(same)
        if _times(same) == _times(alert):
            unchanged += 1
        else:
            moved.append(MovedAlert(same, alert))
    gone = [alert for earlier in candidates.values() for alert in earlier]
    return VersionChange(unchanged, new, sorted(gone, key=_start), moved)


def _select_shown(alerts: Sequence[BacktestAlert]) -> list[BacktestAlert]:
    return [alert for alert in alerts if alert.is_shown]


def _identify(alert: BacktestAlert) -> tuple[str, tuple[tuple[str, str], ...]]:
    labels: Mapping[str, str] = alert.labels
    return alert.rule, tuple(sorted(labels.items()))


def _start(alert: BacktestAlert) -> datetime:
    return alert.starts_at


def _times(alert: BacktestAlert) -> tuple[datetime | None, ...]:
    return alert.starts_at, alert.fired_at, alert.ends_at


def _overlap(alert: BacktestAlert, other: BacktestAlert) -> bool:
    ends = (alert.ends_at or _NEVER, other.ends_at or _NEVER)
    return alert.starts_at <= ends[1] and other.starts_at <= ends[0]
