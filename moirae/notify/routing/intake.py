"""When an alert is sent: at once, later, never, or as one that has ended. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from moirae.config import parse_duration
from moirae.notify.routing.alert import (
    EndReason,
    NotifiedAlert,
    WithdrawalCause,
    is_external,
    make_labels,
    make_member,
)
from sql.notifications import NotifiedAlertRow, NotifiedRuleRow

HoldReason = Literal["late", "history"]

WHERE_WAIT = timedelta(seconds=30)
"""How long a first message waits for the result of `where`, unless the rule says it."""
HISTORY_WAIT = timedelta(seconds=0.5)
"""How long a first message waits for the answers of recalls, unless the rule says it."""
INCIDENT_WAIT = timedelta(seconds=5)
"""How long a first message waits until its alert is placed in an incident, if a route groups by it."""
# What waits for unread input waits at least so long: the live process looks at its input at
# intervals, and reports what has waited for some seconds.
_CATCH_UP_TIME = timedelta(seconds=12)


@dataclass(frozen=True)
class RuleWaits:
    """How long the first message about an alert of a rule waits.

    `where`: for the result of its condition; None: it has none. `history`: for the answers of its
    `recalls`. `incident`: whether a route of the alert groups by incident.
    """

    where: timedelta | None = None
    history: timedelta = timedelta(0)
    recalls: int = 0
    incident: bool = False


@dataclass(frozen=True)
class Hold:
    """The first message about an alert waits, until a time of the clock at most.

    `until` None: until all input is read.
    """

    reason: HoldReason
    until: datetime | None


def make_waits(row: NotifiedRuleRow) -> RuleWaits:
    """How long messages about a rule's alerts wait."""
    where = parse_duration(row.where_wait) if row.where_wait is not None else WHERE_WAIT
    history = parse_duration(row.history_wait) if row.history_wait is not None else HISTORY_WAIT
    return RuleWaits(
        where if row.has_condition else None,
        history if row.recalls else timedelta(0),
        row.recalls,
    )


def describe_row(row: NotifiedAlertRow, now: datetime, is_late: bool = False) -> NotifiedAlert:
    """An alert as notifications see it."""
    ends_at, reason = _find_end(row, now)
    withdrawn_by: WithdrawalCause | None = None
    if reason == "withdrawn":
        has_fired = row.state != "withdrawn" and row.fired_at is not None
        withdrawn_by = "history" if has_fired else "settling"
    return NotifiedAlert(
        id=row.id,
        eid=row.eid,
        rule=row.rule,
        version=row.version,
        member=make_member(row.rule, row.key),
        labels=make_labels(row.labels, row.key),
        annotations=row.annotations,
        starts_at=row.starts_at,
        raised_at=row.raised_at,
        ends_at=ends_at,
        end_reason=reason,
        withdrawn_by=withdrawn_by,
        incident=row.incident,
        is_acknowledged=row.acknowledged,
        is_late=is_late,
    )


def _find_end(row: NotifiedAlertRow, now: datetime) -> tuple[datetime | None, EndReason | None]:
    if row.state == "withdrawn" or row.history == "withdrawn" or row.fired_at is None:
        return row.ends_at or now, "withdrawn"
    if row.ends_at is None:
        return None, None
    return row.ends_at, "no_data" if row.end_reason == "no_data" else "ended"


def find_hold(
    row: NotifiedAlertRow, waits: RuleWaits, notify_within: timedelta, shortest_wait: timedelta
) -> Hold | None:
    """Why the first message about an alert that fires waits; None: it does not.

    `shortest_wait`: the least `group_wait` of its routes: answers may come meanwhile.
    """
    if fired_long_ago(row, notify_within):
        return Hold("late", None)
    if waits.where is not None and is_undecided(row, waits):
        return Hold("history", row.raised_at + waits.where)
    if waits.history > shortest_wait:
        return Hold("history", row.raised_at + waits.history)
    if waits.incident and row.incident is None:
        return Hold("history", row.raised_at + INCIDENT_WAIT)
    return None


def is_undecided(row: NotifiedAlertRow, waits: RuleWaits) -> bool:
    """Whether the condition of its rule has no result yet: the recalls that it reads are requested
    after the alert is stored.
    """
    return waits.where is not None and row.history in (None, "waiting")


def fired_long_ago(row: NotifiedAlertRow, notify_within: timedelta) -> bool:
    """Whether an alert had fired long ago when it was stored as firing."""
    # The `startsAt` of a post is not known to be of a clock.
    fired_at = row.raised_at if is_external(row.rule) else row.fired_at
    return fired_at is not None and row.raised_at - fired_at > notify_within


def is_hold_over(
    row: NotifiedAlertRow, hold: Hold, waits: RuleWaits, answered: int, now: datetime
) -> bool:
    """Whether a message that waits for history is sent now. `answered`: recalls with an answer."""
    if hold.until is not None and now >= hold.until:
        return True
    if waits.incident and row.incident is None:
        return False
    if waits.where is not None:
        return not is_undecided(row, waits)
    return answered >= waits.recalls


def has_caught_up(held_since: datetime, now: datetime) -> bool:
    """Whether alerts of read streams that fired long ago, and were held since a time, are decided."""
    return now - held_since > _CATCH_UP_TIME


def may_be_known(
    alert: NotifiedAlert, restored_at: datetime | None, is_reported: Callable[[], bool]
) -> bool:
    """Whether receivers may know what is to be sent from before the restore of the workspace.

    `is_reported`: whether the restored log says that the alert was sent.
    """
    if restored_at is None:
        return False
    if alert.ends_at is not None:
        return alert.ends_at < restored_at
    return min(alert.raised_at, alert.starts_at) < restored_at and not is_reported()


def has_outlasted(row: NotifiedAlertRow, alert: NotifiedAlert, shortest_wait: timedelta) -> bool:
    """Whether an alert fired, has ended, and lasted until its first message was due.

    `shortest_wait`: the least `group_wait` of its routes. By event time, too: what is evaluated
    late begins and ends at once.
    """
    if row.past or alert.ends_at is None or alert.end_reason == "withdrawn":
        return False
    lasted = max(row.updated_at - row.raised_at, alert.ends_at - alert.starts_at)
    return lasted >= shortest_wait


def waits_of(rules: Mapping[str, RuleWaits], rule: str) -> RuleWaits:
    """The waits of a rule; built-in and external ones have none."""
    return rules.get(rule, RuleWaits())
