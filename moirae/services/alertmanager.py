"""What Alertmanager's API answers, version 2, made from a workspace: as far as `amtool` and Karma use it.

Silences of a schedule are shown as pending outside of their windows.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from archiver.clock import utc_now
from moirae import __version__
from moirae.config import Route, format_duration
from moirae.config.matchers import Matcher, match_all, parse_matchers
from moirae.errors import NotFound, UsageError
from moirae.notify import (
    PresentAlert,
    format_go_time,
    list_present_alerts,
    make_silence,
    read_declared,
)
from sql.notifications import NewSilence, SilenceGateway, SilenceRow

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

_MAX_SILENCES = 10_000
_NO_RECEIVER = "none"  # of the root: alerts that no route takes are not sent


class AlertmanagerMatcher(BaseModel):
    """A condition on a label."""

    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(min_length=1, max_length=1_000)
    value: str = Field(max_length=10_000)
    is_regex: bool = Field(alias="isRegex")
    is_equal: bool = Field(default=True, alias="isEqual")

    def to_matcher(self) -> Matcher:
        """Raises `UsageError`."""
        operator = ("" if self.is_equal else "!") + ("~" if self.is_regex else "")
        operator = {"": "=", "!": "!=", "~": "=~", "!~": "!~"}[operator]
        try:
            return Matcher(self.name, operator, self.value)
        except ValueError as error:
            raise UsageError(f"matchers: {error}") from error


class AlertmanagerSilence(BaseModel):
    """A silence to add, or to put in the place of another."""

    id: UUID | None = None
    matchers: list[AlertmanagerMatcher] = Field(min_length=1, max_length=50)
    starts_at: AwareDatetime = Field(alias="startsAt")
    ends_at: AwareDatetime = Field(alias="endsAt")
    created_by: str = Field(alias="createdBy", min_length=1, max_length=200)
    comment: str = Field(min_length=1, max_length=20_000)


@dataclass(frozen=True)
class ListedAlerts:
    """Which alerts to list. `receiver`: a regular expression; None: all."""

    active: bool = True
    silenced: bool = True
    inhibited: bool = True
    filters: Sequence[str] = ()
    receiver: str | None = None


def list_alerts(workspace: "LocalWorkspace", selection: ListedAlerts) -> list[dict[str, Any]]:
    """The alerts that fire now. Raises `UsageError`."""
    return [_describe_alert(present, workspace) for present in _select(workspace, selection)]


def list_groups(workspace: "LocalWorkspace", selection: ListedAlerts) -> list[dict[str, Any]]:
    """The alerts that fire now, by receiver and group labels. Raises `UsageError`."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    pattern = _compile(selection.receiver)
    for present in _select(workspace, selection):
        for node in present.nodes:
            if pattern is not None and not pattern.fullmatch(node.options.receiver):
                continue
            labels = node.group_labels(present.alert.labels, present.alert.group_incident)
            group = groups.setdefault(
                (node.id, str(sorted(labels.items()))),
                {"labels": labels, "receiver": {"name": node.options.receiver}, "alerts": []},
            )
            group["alerts"].append(_describe_alert(present, workspace))
    return list(groups.values())


def list_receivers(workspace: "LocalWorkspace") -> list[dict[str, str]]:
    """The receivers of the workspace file."""
    return [{"name": name} for name in sorted(read_declared(workspace.settings).receivers)]


def describe_status(workspace: "LocalWorkspace", started_at: datetime) -> dict[str, Any]:
    """The version and the routes, without what receivers are sent to."""
    number = __version__
    return {
        "cluster": {"name": "", "status": "disabled", "peers": []},
        "versionInfo": {
            "version": number,
            "revision": "moirae",
            "branch": "",
            "buildUser": "",
            "buildDate": "",
            "goVersion": "",
        },
        "config": {"original": _render_config(workspace)},
        "uptime": format_go_time(started_at),
    }


def list_silences(workspace: "LocalWorkspace", filters: Sequence[str]) -> list[dict[str, Any]]:
    """All silences, those that ended, too. `filters`: conditions on their own conditions."""
    conditions = _parse_filters(filters)
    now = utc_now()
    rows = SilenceGateway(workspace.connection).list_all(limit=_MAX_SILENCES)
    return [
        _describe_silence(row, now)
        for row in rows
        if match_all(conditions, {m.name: m.value for m in _read_matchers(row)})
    ]


def get_silence(workspace: "LocalWorkspace", silence: UUID) -> dict[str, Any]:
    """A silence. Raises `NotFound`."""
    row = SilenceGateway(workspace.connection).get(silence)
    if row is None:
        raise NotFound(f"no silence with ID {silence}")
    return _describe_silence(row, utc_now())


def put_silence(workspace: "LocalWorkspace", posted: AlertmanagerSilence) -> UUID:
    """Add a silence; one whose conditions or start change replaces the other. Raises `UsageError`.

    The caller owns the transaction.
    """
    matchers = [matcher.to_matcher() for matcher in posted.matchers]
    if all(matcher.matches({}) for matcher in matchers):
        raise UsageError("matchers: at least one must not match an empty value")
    now = utc_now()
    if posted.ends_at <= posted.starts_at or posted.ends_at <= now:
        raise UsageError("endsAt: must be after startsAt and in the future")
    gateway = SilenceGateway(workspace.connection)
    previous = None if posted.id is None else gateway.get(posted.id)
    if posted.id is not None and previous is None:
        raise NotFound(f"no silence with ID {posted.id}")
    texts = list(map(str, matchers))
    silence_id, starts_at = uuid4(), max(posted.starts_at, now)
    if previous is not None and previous.ends_at > now:
        if list(previous.matchers) == texts and _keeps_start(previous, posted.starts_at, now):
            silence_id, starts_at = previous.id, previous.starts_at
        else:
            gateway.expire(previous.id, now)
    author = posted.created_by
    suffix = f" (token {workspace.author})"
    if author != workspace.author and not author.endswith(suffix):
        author += suffix
    gateway.put(
        NewSilence(
            id=silence_id,
            matchers=texts,
            starts_at=starts_at,
            ends_at=posted.ends_at,
            schedule=None if previous is None else previous.schedule,
            author=author,
            comment=posted.comment,
            replaces=previous.id if previous is not None and silence_id != previous.id else None,
        )
    )
    return silence_id


def expire_silence(workspace: "LocalWorkspace", silence: UUID) -> None:
    """End a silence. Raises `NotFound`, and `UsageError` if it has ended. In a transaction."""
    gateway = SilenceGateway(workspace.connection)
    if gateway.get(silence) is None:
        raise NotFound(f"no silence with ID {silence}")
    if not gateway.expire(silence, utc_now()):
        raise UsageError(f"silence {silence} has ended already")


def _keeps_start(previous: SilenceRow, starts_at: datetime, now: datetime) -> bool:
    """Whether the start of a silence is not to change, as one that has passed cannot."""
    return previous.starts_at <= now or previous.starts_at == starts_at


def _select(workspace: "LocalWorkspace", selection: ListedAlerts) -> list[PresentAlert]:
    conditions = _parse_filters(selection.filters)
    pattern = _compile(selection.receiver)
    selected = []
    present_alerts = list_present_alerts(
        workspace.connection, read_declared(workspace.settings), utc_now()
    )
    for present in present_alerts:
        is_shown = (
            (selection.active or present.is_held_back)
            and (selection.silenced or not present.silenced_by)
            and (selection.inhibited or present.inhibited_by is None)
        )
        receivers = [node.options.receiver for node in present.nodes]
        if not is_shown or not match_all(conditions, present.alert.labels):
            continue
        if pattern is None or any(map(pattern.fullmatch, receivers)):
            selected.append(present)
    return selected


def _parse_filters(texts: Iterable[str]) -> list[Matcher]:
    try:
        return [matcher for text in texts for matcher in parse_matchers(text)]
    except ValueError as error:
        raise UsageError(f"filter: {error}") from error


def _compile(receiver: str | None) -> re.Pattern[str] | None:
    if receiver is None:
        return None
    # Names of receivers are few and short, and so is the expression.
    try:
        return re.compile(receiver[:200])
    except re.error as error:
        raise UsageError(f"receiver: {error}") from error


def _describe_alert(present: PresentAlert, workspace: "LocalWorkspace") -> dict[str, Any]:
    alert = present.alert
    receivers = dict.fromkeys(node.options.receiver for node in present.nodes)
    inhibitor = present.inhibited_by
    return {
        "annotations": dict(alert.annotations),
        "labels": dict(alert.labels),
        "receivers": [{"name": name} for name in receivers],
        "fingerprint": alert.fingerprint,
        "startsAt": format_go_time(alert.starts_at),
        "updatedAt": format_go_time(alert.raised_at),
        # It fires: Alertmanager's API has an end for each alert.
        "endsAt": "9999-12-31T23:59:59Z",
        "generatorURL": f"{workspace.settings.server.public_url}/alerts/{alert.id}",
        "status": {
            "state": "suppressed" if present.is_held_back else "active",
            "silencedBy": list(map(str, present.silenced_by)),
            "inhibitedBy": [] if inhibitor is None else [inhibitor.fingerprint],
            "mutedBy": [],
        },
    }


def _read_matchers(row: SilenceRow) -> list[Matcher]:
    return [matcher for text in row.matchers for matcher in parse_matchers(text)]


def _describe_silence(row: SilenceRow, now: datetime) -> dict[str, Any]:
    state = "active" if make_silence(row).is_active(now) else "pending"
    if row.ends_at <= now:
        state = "expired"
    return {
        "id": str(row.id),
        "matchers": [
            {
                "name": matcher.name,
                "value": matcher.value,
                "isRegex": "~" in matcher.operator,
                "isEqual": "!" not in matcher.operator,
            }
            for matcher in _read_matchers(row)
        ],
        "startsAt": format_go_time(row.starts_at),
        "endsAt": format_go_time(row.ends_at),
        "updatedAt": format_go_time(row.updated_at),
        "createdBy": row.author,
        "comment": row.comment,
        "status": {"state": state},
    }


def _render_config(workspace: "LocalWorkspace") -> str:
    """The routes as Alertmanager's file has them."""
    settings = read_declared(workspace.settings)
    receivers = [{"name": name} for name in (_NO_RECEIVER, *sorted(settings.receivers))]
    root = {"receiver": _NO_RECEIVER, "routes": [_describe_route(r) for r in settings.routes]}
    # JSON is YAML.
    return orjson.dumps(
        {"route": root, "receivers": receivers}, option=orjson.OPT_INDENT_2
    ).decode()


def _describe_route(route: Route) -> dict[str, Any]:
    """A route with the keys that Alertmanager knows."""
    described: dict[str, Any] = {"matchers": list(map(str, route.all_matchers))}
    if route.receiver is not None:
        described["receiver"] = route.receiver
    if route.group_by is not None:
        described["group_by"] = list(route.group_by)
    for name in ("group_wait", "group_interval", "repeat_interval"):
        duration = getattr(route, name)
        if duration is not None:
            described[name] = format_duration(duration)
    if route.continue_:
        described["continue"] = True
    if route.routes:
        described["routes"] = [_describe_route(child) for child in route.routes]
    return described
