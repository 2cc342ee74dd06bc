"""Alerts as a back-test reports them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from archiver.times import Micros, from_micros, optional_datetime
from moirae.alerts import AlertingRule, AlertLifetime, Event, describe_alert
from moirae.notify import make_alert_labels

BacktestState = Literal["pending", "firing", "resolved", "ended"]


@dataclass(frozen=True)
class BacktestAlert:
    """An alert that the rule would have had. `id`, `eid`: as live.

    `state`: at the end of the range; `ended`: without having fired. `is_hidden`: `where` is false over
    the answers that its recalls would have given then.
    """

    id: UUID
    eid: UUID
    rule: str
    state: BacktestState
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    attributes: Mapping[str, Any]
    starts_at: datetime
    fired_at: datetime | None
    last_at: datetime
    ends_at: datetime | None
    events: int
    is_hidden: bool = False

    @property
    def is_shown(self) -> bool:
        """Whether it fired and was not hidden."""
        return self.fired_at is not None and not self.is_hidden


def make_backtest_alert(
    alerting_rule: AlertingRule,
    first_event: Event,
    lifetime: AlertLifetime,
    *,
    is_hidden: bool = False,
) -> BacktestAlert:
    """`is_hidden`: see `BacktestAlert`."""
    description = describe_alert(alerting_rule, first_event)
    return BacktestAlert(
        id=description.id,
        eid=description.eid,
        rule=alerting_rule.rule,
        state=_find_state(lifetime.fired, lifetime.ended),
        labels=make_alert_labels(alerting_rule.labels, first_event.key),
        annotations=description.annotations,
        attributes=first_event.attributes,
        starts_at=from_micros(lifetime.starts),
        fired_at=optional_datetime(lifetime.fired),
        last_at=from_micros(lifetime.last),
        ends_at=optional_datetime(lifetime.ended),
        events=lifetime.events,
        is_hidden=is_hidden,
    )


def _find_state(fired: Micros | None, ended: Micros | None) -> BacktestState:
    if fired is None:
        return "pending" if ended is None else "ended"
    return "firing" if ended is None else "resolved"
