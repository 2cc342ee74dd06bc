"""Alerts that Moirae raises itself. They have no events: neither contexts nor recalls.

Their times are wall-clock times.
"""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from uuid import UUID, uuid5

from moirae.alerts.event import make_fingerprint
from sql.alerts import AlertDescriptionRow, AlertLifetimeRow, OpenAlertRow

_VERSION = "built-in"
_NAMESPACE = UUID("6f1d1c0e-5c1e-5d3b-9d0a-6d6f69726165")


def make_alert_id(name: str) -> UUID:
    """The same name gives the same ID."""
    return uuid5(_NAMESPACE, name)


def describe_alert(
    alert_id: UUID,
    rule: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    key: Mapping[str, str],
) -> AlertDescriptionRow:
    """An alert of a built-in rule."""
    return AlertDescriptionRow(
        id=alert_id,
        eid=alert_id,
        rule=rule,
        version=_VERSION,
        fingerprint=make_fingerprint(key),
        key=key,
        labels=labels,
        annotations=annotations,
    )


def make_lifetime(
    starts_at: datetime, fired_at: datetime, last_at: datetime, has_ended: bool = False
) -> AlertLifetimeRow:
    """The lifetime of an alert until `last_at`."""
    return AlertLifetimeRow(
        state="resolved" if has_ended else "firing",
        starts_at=starts_at,
        fired_at=fired_at,
        last_at=last_at,
        ends_at=last_at if has_ended else None,
        events=0,
        settled=None,
    )


def continue_alerts(
    open_alerts: Iterable[OpenAlertRow], present: Container[UUID], now: datetime
) -> dict[UUID, AlertLifetimeRow]:
    """The lifetimes of open alerts until now: those that are not `present` any more have ended."""
    return {
        alert.id: make_lifetime(
            alert.starts_at, alert.fired_at or now, now, has_ended=alert.id not in present
        )
        for alert in open_alerts
    }
