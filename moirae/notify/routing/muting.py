"""Silences and inhibition: which alerts are held back, and by what. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from moirae.config import InhibitRule, Matcher
from moirae.config.matchers import match_all
from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.schedule import Recurrence


@dataclass(frozen=True, kw_only=True)
class Silence:
    """Alerts that the matchers select are held back from `starts_at` to `ends_at`.

    `recurrence`: only in windows of a schedule within that time; None: all of it.
    """

    id: UUID
    matchers: Sequence[Matcher]
    starts_at: datetime
    ends_at: datetime
    recurrence: Recurrence | None = None

    def is_active(self, now: datetime) -> bool:
        """Whether it holds back alerts at a time."""
        if not self.starts_at <= now < self.ends_at:
            return False
        return self.recurrence is None or self.recurrence.contains(now)

    def mutes(self, labels: Mapping[str, str], now: datetime) -> bool:
        """Whether it holds back an alert at a time."""
        return self.is_active(now) and match_all(self.matchers, labels)


class Muting:
    """Silences, and the firing alerts that inhibit others."""

    def __init__(self, rules: Sequence[InhibitRule], silences: Sequence[Silence] = ()) -> None:
        self.silences = silences
        self._firing: dict[str, NotifiedAlert] = {}
        """Alerts that fire, by member: also those that no receiver is sent, or not yet."""
        self.replace_rules(rules)

    def replace_rules(self, rules: Sequence[InhibitRule]) -> None:
        """Inhibit by other rules from now on."""
        self._rules = rules
        # For each rule, its firing source alerts by the values of the equal labels, then by member.
        self._sources: list[dict[tuple[str, ...], dict[str, Mapping[str, str]]]] = [
            {} for _ in rules
        ]
        for alert in self._firing.values():
            self._add_source(alert)

    def put(self, alert: NotifiedAlert) -> None:
        """Note an alert that has changed."""
        previous = self._firing.get(alert.member)
        if alert.is_resolved and (previous is None or previous.id != alert.id):
            return  # it is not known, or another one has begun since
        if previous is not None:
            self._remove_source(self._firing.pop(alert.member))
        if not alert.is_resolved:
            self._firing[alert.member] = alert
            self._add_source(alert)

    def _add_source(self, alert: NotifiedAlert) -> None:
        for rule, sources in zip(self._rules, self._sources, strict=True):
            if match_all(rule.source_matchers, alert.labels):
                members = sources.setdefault(_equal_values(rule, alert.labels), {})
                members[alert.member] = alert.labels

    def _remove_source(self, alert: NotifiedAlert) -> None:
        for rule, sources in zip(self._rules, self._sources, strict=True):
            values = _equal_values(rule, alert.labels)
            if alert.member in sources.get(values, ()):
                del sources[values][alert.member]
                if not sources[values]:
                    del sources[values]

    def find_inhibitor(self, labels: Mapping[str, str]) -> str | None:
        """The member of a firing alert that inhibits an alert; None: no one does."""
        for rule, sources in zip(self._rules, self._sources, strict=True):
            candidates = sources.get(_equal_values(rule, labels))
            if not candidates or not match_all(rule.target_matchers, labels):
                continue
            is_source = match_all(rule.source_matchers, labels)
            for member, source in candidates.items():
                # An alert that is source and target is not inhibited by others of its kind.
                if not (is_source and match_all(rule.target_matchers, source)):
                    return member
        return None

    def find_silences(self, labels: Mapping[str, str], now: datetime) -> list[UUID]:
        """The silences that hold back an alert."""
        return [silence.id for silence in self.silences if silence.mutes(labels, now)]

    def select_audible(self, alerts: Iterable[NotifiedAlert], now: datetime) -> list[NotifiedAlert]:
        """The alerts that nothing holds back."""
        silences = [silence for silence in self.silences if silence.is_active(now)]
        audible = []
        for alert in alerts:
            if self.find_inhibitor(alert.labels) is not None:
                continue
            if not any(match_all(silence.matchers, alert.labels) for silence in silences):
                audible.append(alert)
        return audible


def _equal_values(rule: InhibitRule, labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels.get(name, "") for name in rule.equal)
