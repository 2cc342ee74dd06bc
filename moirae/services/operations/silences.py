"""Silences and maintenance windows: add, list, expire, and preview what they hold back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID, uuid4

from pydantic import Field

import sql
from archiver.clock import utc_now
from moirae.config import parse_duration
from moirae.config.matchers import Matcher, match_all, parse_matchers
from moirae.errors import NotFound, UsageError
from moirae.notify import Recurrence, make_alert_labels, make_alert_matchers, make_silence
from moirae.services.models import Arguments, IdPrefix, Name, NoteText, Time, to_id_pattern
from moirae.services.operation import operation
from sql.alerts import AlertFilter, AlertGateway, AlertRow
from sql.notifications import NewSilence, SilenceGateway, SilenceRow

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

_MAX_SILENCES = 10_000
_MAX_ALERTS = 10_000  # that a preview looks at
_MAX_SHOWN = 100
_PREVIEW_TIME = timedelta(days=7)
_DEFAULT_DURATION = timedelta(hours=1)
MatcherText = Annotated[str, Field(min_length=1, max_length=1_000)]


class SilenceSchedule(Arguments):
    """Windows in which a silence holds back alerts, within its time."""

    cron: str = Field(max_length=200, description="Starts of the windows: a cron expression.")
    duration: str = Field(max_length=40, description="Length of a window, such as 2h.")
    zone: Name = Field("UTC", description="Time zone of the expression.")


class SilenceBody(Arguments):
    """Which alerts to hold back, and how long."""

    matchers: list[MatcherText] = Field(
        default=[],
        max_length=50,
        description='Conditions on labels, such as host="a" or team=~"x|y"; all must hold.',
    )
    alert: IdPrefix | None = Field(
        None, description="Alert whose labels are conditions, too: an ID or a unique prefix."
    )
    starts_at: Time | None = Field(None, description="Start. Default: now.")
    ends_at: Time | None = Field(None, description="End. Default: an hour after the start.")
    comment: NoteText = Field(description="Reason; must not be blank.")
    schedule: SilenceSchedule | None = Field(None, description="Only in windows.")


class AgentSilenceBody(Arguments):
    """Which alerts an agent wants to hold back, and how long from now."""

    matchers: list[MatcherText] = Field(
        min_length=1,
        max_length=50,
        description='Conditions on labels, such as host="a"; all must hold.',
    )
    duration: str = Field("1h", max_length=40, description="Time from now, such as 1h.")
    comment: NoteText = Field(description="Reason; must not be blank.")


class SilenceQuery(Arguments):
    """Which silences to list."""

    expired: bool = Field(False, description="Include silences that have ended.")


@dataclass(frozen=True, kw_only=True)
class SilenceState:
    """A silence. `state`: pending (also between its windows), active or expired."""

    id: UUID
    state: Literal["pending", "active", "expired"]
    matchers: Sequence[str]
    starts_at: datetime
    ends_at: datetime
    schedule: Mapping[str, Any] | None
    author: str
    comment: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class SilencedAlert:
    """An alert that a silence holds back, or would have held back."""

    id: UUID
    rule: str
    labels: Mapping[str, str]
    starts_at: datetime


@dataclass(frozen=True)
class SilencePreview:
    """What a silence would hold back: alerts that fire now, and those of the last seven days.

    With windows: those now if a window is open, and those that fired in one. At most a hundred of
    each are listed.
    """

    firing: int
    last_week: int
    firing_alerts: Sequence[SilencedAlert]
    past_alerts: Sequence[SilencedAlert]


@operation("GET", "/silences", role="viewer")
def list_silences(workspace: "LocalWorkspace", query: SilenceQuery) -> list[SilenceState]:
    """List silences, newest first."""
    now = utc_now()
    rows = SilenceGateway(workspace.connection).list_all(
        ends_after=None if query.expired else now, limit=_MAX_SILENCES
    )
    return [describe_silence(row, now) for row in rows]


@operation("POST", "/silences", role="operator")
def add_silence(workspace: "LocalWorkspace", body: SilenceBody) -> SilenceState:
    """Hold back alerts. Their state and history are unaffected."""
    silence = _make_silence(workspace, body, workspace.author)
    if not silence.comment.strip():
        raise UsageError("the comment must not be empty")
    gateway = SilenceGateway(workspace.connection)
    gateway.put(silence)
    row = gateway.get(silence.id)
    assert row is not None
    return describe_silence(row, utc_now())


@operation("POST", "/silences/agent", role="operator")
def add_agent_silence(workspace: "LocalWorkspace", body: AgentSilenceBody) -> SilenceState:
    """Hold back alerts from now on for at most `server.agent_silence`, as agents do."""
    try:
        duration = parse_duration(body.duration)
    except ValueError as error:
        raise UsageError(f"duration: {error}") from error
    longest = workspace.settings.server.agent_silence
    if not timedelta() < duration <= longest:
        raise UsageError(f"duration: an agent may hold back alerts for at most {longest}")
    now = utc_now()
    silence = SilenceBody(
        matchers=body.matchers,
        alert=None,
        starts_at=now,
        ends_at=now + duration,
        comment=body.comment,
        schedule=None,
    )
    return add_silence.function(workspace, silence)


@operation("POST", "/silences/preview", role="viewer", changes=False)
def preview_silence(workspace: "LocalWorkspace", body: SilenceBody) -> SilencePreview:
    """Show what a silence would hold back now, and would have held back in the last week."""
    silence = _make_silence(workspace, body, workspace.author)
    matchers = [matcher for text in silence.matchers for matcher in parse_matchers(text)]
    windows = _read_windows(body.schedule)
    now = utc_now()
    alerts = AlertGateway(workspace.connection)
    firing = alerts.list_newest(AlertFilter(active=True), limit=_MAX_ALERTS)
    past = alerts.list_newest(AlertFilter(since=now - _PREVIEW_TIME), limit=_MAX_ALERTS)
    is_open = windows is None or windows.contains(now)
    now_held = [_describe_alert(alert) for alert in _select(firing, matchers) if is_open]
    past_held = [
        _describe_alert(alert)
        for alert in _select(past, matchers)
        if windows is None or (alert.fired_at is not None and windows.contains(alert.fired_at))
    ]
    return SilencePreview(
        len(now_held), len(past_held), now_held[:_MAX_SHOWN], past_held[:_MAX_SHOWN]
    )


@operation("DELETE", "/silences/{silence}", role="operator")
def expire_silence(workspace: "LocalWorkspace", silence: IdPrefix) -> SilenceState:
    """End a silence. It stays in the list of expired ones."""
    gateway = SilenceGateway(workspace.connection)
    row = find_silence(gateway, silence)
    now = utc_now()
    if not gateway.expire(row.id, now):
        raise UsageError(f"silence {row.id} has ended already")
    ended = gateway.get(row.id)
    assert ended is not None
    return describe_silence(ended, now)


def find_silence(gateway: SilenceGateway, prefix: str) -> SilenceRow:
    """The silence of an ID or unique prefix. Raises `UsageError`."""
    rows = gateway.list_all(limit=_MAX_SILENCES)
    matching = [row for row in rows if str(row.id).startswith(prefix.lower())]
    if not matching:
        raise NotFound(f"no silence with ID {prefix!a}; see `moirae silence query --expired`")
    if len(matching) > 1:
        raise UsageError(f"ambiguous: {prefix!a} matches several silences")
    return matching[0]


def describe_silence(row: SilenceRow, now: datetime) -> SilenceState:
    """A silence with its state."""
    state: Literal["pending", "active", "expired"] = "active"
    if row.ends_at <= now:
        state = "expired"
    elif not make_silence(row).is_active(now):
        state = "pending"
    return SilenceState(
        id=row.id,
        state=state,
        matchers=row.matchers,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        schedule=row.schedule,
        author=row.author,
        comment=row.comment,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def check_matchers(texts: Iterable[str]) -> list[Matcher]:
    """The matchers of a silence. Raises `UsageError`: one of them must not match everything."""
    try:
        matchers = [matcher for text in texts for matcher in parse_matchers(text)]
    except ValueError as error:
        raise UsageError(f"matchers: {error}") from error
    if all(matcher.matches({}) for matcher in matchers):
        raise UsageError("matchers: at least one must not match an empty value")
    return matchers


def _make_silence(workspace: "LocalWorkspace", body: SilenceBody, author: str) -> NewSilence:
    texts = list(body.matchers)
    if body.alert is not None:
        alert = find_alert(workspace.connection, body.alert)
        texts += make_alert_matchers(alert.labels, alert.key)
    matchers = check_matchers(texts)
    starts_at = body.starts_at or utc_now()
    ends_at = body.ends_at or starts_at + _DEFAULT_DURATION
    if ends_at <= starts_at:
        raise UsageError("ends_at: must be after starts_at")
    _read_windows(body.schedule)
    return NewSilence(
        id=uuid4(),
        matchers=list(map(str, matchers)),
        starts_at=starts_at,
        ends_at=ends_at,
        schedule=None if body.schedule is None else body.schedule.model_dump(),
        author=author,
        comment=body.comment,
    )


def _read_windows(schedule: SilenceSchedule | None) -> Recurrence | None:
    """Raises `UsageError`."""
    if schedule is None:
        return None
    try:
        return Recurrence(schedule.cron, parse_duration(schedule.duration), schedule.zone)
    except ValueError as error:
        raise UsageError(f"schedule: {error}") from error


def find_alert(connection: sql.Connection, prefix: str) -> AlertRow:
    """The alert of an ID or unique prefix. Raises `UsageError`."""
    rows = AlertGateway(connection).list_by_prefix(to_id_pattern(prefix), limit=2)
    if not rows:
        raise NotFound(f"no alert with ID {prefix!a}; see `moirae alerts list`")
    if len(rows) > 1:
        raise UsageError(f"ambiguous: {prefix!a} matches several alerts")
    return rows[0]


def _select(alerts: Iterable[AlertRow], matchers: Sequence[Matcher]) -> list[AlertRow]:
    return [
        alert
        for alert in alerts
        if alert.fired_at is not None
        and match_all(matchers, make_alert_labels(alert.labels, alert.key))
    ]


def _describe_alert(alert: AlertRow) -> SilencedAlert:
    labels = make_alert_labels(alert.labels, alert.key)
    return SilencedAlert(alert.id, alert.rule, labels, alert.starts_at)
