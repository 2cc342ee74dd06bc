"""Lints that a back-test finds (`moirae rules check --history`). No I/O."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations

from moirae.backtest.alerts import BacktestAlert
from moirae.config import format_duration
from moirae.documents import KeyPath
from moirae.evaluation.plan import ActiveRule
from moirae.rules import LintName

Finding = tuple[LintName, KeyPath, str]

_FLAP_SPAN = timedelta(hours=1)
_FLAP_ALERTS = 3  # of one key within the span
_TOGETHER = timedelta(minutes=1)  # between the firing of two alerts that fire together
_MIN_TOGETHER = 3  # alerts of a rule, to say that it always fires with another one
_LABELS_OF_RULES = ("alertname", "severity")


@dataclass(frozen=True)
class RulePast:
    """What a rule would have done. `interval`: between rows of one key that it reads, the median of
    the slowest stream; None: not known. `events`: how many there were.
    """

    rule: ActiveRule
    alerts: Sequence[BacktestAlert]
    events: int
    interval: timedelta | None

    @property
    def shown(self) -> list[BacktestAlert]:
        return [alert for alert in self.alerts if alert.is_shown]


def find_in_past(past: RulePast) -> Iterator[Finding]:
    """What is found of one rule."""
    yield from _find_short_keep_firing(past)
    yield from _find_flapping(past)
    if not past.events:
        yield (
            "never-matched",
            ("alert",),
            "it has no event in the range, in which its streams have rows",
        )


def find_pairs(pasts: Sequence[RulePast]) -> Iterator[tuple[RulePast, Finding]]:
    """Rules that always fire with another one, at the later one of the two."""
    for first, second in combinations(pasts, 2):
        counts = len(first.shown), len(second.shown)
        if min(counts) >= _MIN_TOGETHER and _fire_together(first, second):
            message = (
                f"it always fires together with {first.rule.name} ({counts[1]} and {counts[0]} "
                "alerts): one of them would do, or inhibit one by the other"
            )
            yield second, ("always-together", ("alert",), message)


def _find_short_keep_firing(past: RulePast) -> Iterator[Finding]:
    rule, interval = past.rule, past.interval
    if rule.is_absence or interval is None:
        return
    keep = timedelta(microseconds=rule.keep_firing_for)
    if keep < interval:
        rounded = timedelta(milliseconds=round(interval / timedelta(milliseconds=1)))
        message = (
            f"keep_firing_for is {format_duration(keep)}, and the rows of a key are "
            f"{format_duration(rounded)} apart: each event is an alert of its own"
        )
        path = (
            ("keep_firing_for",)
            if rule.spec.model_fields_set >= {"keep_firing_for"}
            else ("alert",)
        )
        yield "short-keep-firing", path, message


def _find_flapping(past: RulePast) -> Iterator[Finding]:
    by_key: dict[tuple[tuple[str, str], ...], list[BacktestAlert]] = defaultdict(list)
    for alert in past.shown:
        by_key[tuple(sorted(alert.labels.items()))].append(alert)
    flapping: Counter[str] = Counter()
    for labels, alerts in by_key.items():
        count = _count_within(alerts)
        if count >= _FLAP_ALERTS:
            names = [f"{name}={value}" for name, value in labels if name not in _LABELS_OF_RULES]
            flapping[", ".join(names) or "its only key"] = count
    for key, count in flapping.most_common(1):
        note = f" (and {len(flapping) - 1:,} other keys)" if len(flapping) > 1 else ""
        message = (
            f"{count} alerts of {key} within an hour{note}: a longer keep_firing_for makes them "
            "one, a longer `for` leaves out short ones"
        )
        yield "flapping", ("alert",), message


def _count_within(alerts: Sequence[BacktestAlert]) -> int:
    """The most alerts that fire within the span."""
    times = sorted(alert.fired_at for alert in alerts if alert.fired_at is not None)
    first = highest = 0
    for last, moment in enumerate(times):
        while moment - times[first] > _FLAP_SPAN:
            first += 1
        highest = max(highest, last - first + 1)
    return highest


def _fire_together(first: RulePast, second: RulePast) -> bool:
    return _all_have_partner(first.shown, second.shown) and _all_have_partner(
        second.shown, first.shown
    )


def _all_have_partner(alerts: Sequence[BacktestAlert], candidates: Sequence[BacktestAlert]) -> bool:
    return all(any(_are_partners(alert, other) for other in candidates) for alert in alerts)


def _are_partners(alert: BacktestAlert, other: BacktestAlert) -> bool:
    assert alert.fired_at is not None
    assert other.fired_at is not None
    if abs(alert.fired_at - other.fired_at) > _TOGETHER:
        return False
    labels: Mapping[str, str] = other.labels
    return all(
        labels[name] == value
        for name, value in alert.labels.items()
        if name in labels and name not in _LABELS_OF_RULES
    )
