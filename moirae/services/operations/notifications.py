"""Receivers, routes, and the log of messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from pydantic import Field

from archiver.clock import utc_now
from moirae.config.matchers import format_matchers
from moirae.errors import DeliveryFailed
from moirae.notify import (
    PresentAlert,
    format_labels,
    list_present_alerts,
    make_policy,
    preview_message,
    read_declared,
    send_test,
)
from moirae.notify.routing.tree import RouteNode, find_routes, walk_tree
from moirae.services.models import Arguments, Name
from moirae.services.operation import operation
from moirae.services.operations.silences import find_alert
from sql.notifications import (
    ActionLinkGateway,
    AlertDeliveryRow,
    NotificationGateway,
    NotificationRow,
    SilenceGateway,
)

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

# The route of `ReceiverFailing`, which every workspace has.
_BUILT_IN = '{}/{alertname="ReceiverFailing",source="moirae"}'
_MAX_SILENCES = 10_000
_MAX_LABEL_LENGTH = 10_000  # characters
LabelValue = Annotated[str, Field(max_length=_MAX_LABEL_LENGTH)]


class NotificationQuery(Arguments):
    """Which messages to list."""

    receiver: Name | None = Field(None, description="Only messages to this receiver.")
    alert: UUID | None = Field(None, description="Only messages that name this alert.")
    before: int | None = Field(None, ge=1, description="Only messages before this number.")
    limit: int = Field(100, ge=1, le=1_000, description="Maximum number of messages.")


class DeliveryQuery(Arguments):
    """Whose deliveries to list."""

    alert: list[UUID] = Field(max_length=1_000, description="Alerts.")


class PreviewQuery(Arguments):
    """Which message to preview."""

    alert: str = Field(max_length=100, description="Alert, or a unique prefix of its ID.")
    resolved: bool = Field(False, description="The message about its end.")


class LabelsBody(Arguments):
    """Labels of an alert."""

    labels: dict[str, LabelValue] = Field(max_length=200, description="Labels by name.")


@dataclass(frozen=True, kw_only=True)
class ReceiverStatus:
    """A declared receiver. `failing_since` None: the last delivery succeeded, if there was one.

    `pending`: messages that wait. `failed`: messages that were given up. `unread_since`: since when
    its acknowledgements cannot be read. `test_error`: why it has not taken the last test message;
    None: it has, or has taken another message since, or none was sent.
    """

    receiver: str
    channel: str
    delivered_at: datetime | None
    failing_since: datetime | None
    failures: int
    error: str | None
    pending: int
    failed: int
    unread_since: datetime | None
    unread_error: str | None
    test_error: str | None


@dataclass(frozen=True, kw_only=True)
class ReceiverTest:
    """What became of a test message. `error` None: the receiver has taken it."""

    receiver: str
    error: str | None


@dataclass(frozen=True, kw_only=True)
class MessagePreview:
    """A message as text: JSON, or a mail."""

    message: str


@dataclass(frozen=True, kw_only=True)
class SilenceSummary:
    """A silence that holds back an alert."""

    id: UUID
    author: str
    comment: str
    ends_at: datetime


@dataclass(frozen=True, kw_only=True)
class HeldBackAlert:
    """An alert that fires, and why nobody is sent it.

    `inhibited_by`: the alert that inhibits it, `inhibitor` its name and labels; None: no one does.
    """

    id: UUID
    silences: Sequence[SilenceSummary]
    inhibited_by: UUID | None
    inhibitor: str | None


@dataclass(frozen=True, kw_only=True)
class RouteMatch:
    """A route that alerts take. `route`: its matchers, after those of the routes above.

    `group`: the labels of the alert's group. `muted`: time intervals hold back its messages now.
    """

    receiver: str
    route: str
    group: Mapping[str, str]
    muted: bool


@dataclass(frozen=True, kw_only=True)
class RoutedAlert:
    """An alert that fires, and what holds it back.

    `silenced_by`: silences. `inhibited`: another alert that fires inhibits it.
    """

    id: UUID
    rule: str
    labels: Mapping[str, str]
    silenced_by: Sequence[UUID]
    inhibited: bool


@dataclass(frozen=True, kw_only=True)
class RouteState:
    """A route of the tree, with the alerts that take it now. `depth`: 0 for the first level."""

    depth: int
    matchers: str
    receiver: str
    group_by: Sequence[str]
    group_wait_seconds: float
    group_interval_seconds: float
    repeat_interval_seconds: float
    goes_on: bool
    muted: bool
    alerts: Sequence[RoutedAlert]


class LinkSelection(Arguments):
    """Which links of messages: of all, if nothing is set."""

    receiver: Name | None = Field(None, description="Only of messages to this receiver.")
    alert: str | None = Field(
        None, max_length=100, description="Only about this alert: its ID or a unique prefix."
    )


@dataclass(frozen=True, kw_only=True)
class RevokedLinks:
    """How many links were open and act no more."""

    revoked: int


@operation("GET", "/receivers", role="viewer")
def list_receivers(workspace: "LocalWorkspace") -> list[ReceiverStatus]:
    """List receivers with their last delivery, errors, and messages that wait."""
    gateway = NotificationGateway(workspace.connection)
    states = {row.receiver: row for row in gateway.list_states()}
    undelivered = {row.receiver: row for row in gateway.list_undelivered()}
    receivers = []
    for name, receiver in read_declared(workspace.settings).receivers.items():
        state, waiting = states.get(name), undelivered.get(name)
        receivers.append(
            ReceiverStatus(
                receiver=name,
                channel=receiver.channel,
                delivered_at=None if state is None else state.delivered_at,
                failing_since=None if state is None else state.failing_since,
                failures=0 if state is None else state.failures,
                error=None if state is None else state.error,
                pending=0 if waiting is None else waiting.pending,
                failed=0 if waiting is None else waiting.failed,
                unread_since=None if state is None else state.unread_since,
                unread_error=None if state is None else state.unread_error,
                test_error=None if state is None else state.failed_test,
            )
        )
    return receivers


@operation("GET", "/notifications", role="viewer")
def list_notifications(
    workspace: "LocalWorkspace", query: NotificationQuery
) -> list[NotificationRow]:
    """List messages to receivers, newest first, and what became of them."""
    return NotificationGateway(workspace.connection).list_newest(
        receiver=query.receiver, alert_id=query.alert, before=query.before, limit=query.limit
    )


@operation("POST", "/receivers/{receiver}/test", role="operator", changes=False)
def test_receiver(workspace: "LocalWorkspace", receiver: Name) -> ReceiverTest:
    """Deliver a test message to a receiver now. Recorded in the audit log."""
    settings = read_declared(workspace.settings)
    workspace.record_use("notifications.test_receiver", {"receiver": receiver})
    test = ReceiverTest(receiver=receiver, error=None)
    try:
        send_test(settings, receiver)
    except DeliveryFailed as error:
        test = ReceiverTest(receiver=receiver, error=str(error))
    NotificationGateway(workspace.connection).put_test(receiver, test.error)
    return test


@operation("GET", "/receivers/{receiver}/preview", role="operator")
def preview_receiver(
    workspace: "LocalWorkspace", receiver: Name, query: PreviewQuery
) -> MessagePreview:
    """Show the message that a receiver would get about an alert. Nothing is sent."""
    settings = read_declared(workspace.settings)
    connection = workspace.connection
    alert_id = find_alert(connection, query.alert).id
    message = preview_message(settings, connection, receiver, alert_id, query.resolved)
    return MessagePreview(message=message)


@operation("POST", "/action-links/revoke", role="operator")
def revoke_links(workspace: "LocalWorkspace", body: LinkSelection) -> RevokedLinks:
    """Have links of messages act no more: those to a receiver, about an alert, or all."""
    gateway = ActionLinkGateway(workspace.connection)
    alert_id = None if body.alert is None else find_alert(workspace.connection, body.alert).id
    return RevokedLinks(revoked=gateway.revoke(receiver=body.receiver, alert_id=alert_id))


@operation("GET", "/notifications/deliveries", role="viewer")
def list_deliveries(workspace: "LocalWorkspace", query: DeliveryQuery) -> list[AlertDeliveryRow]:
    """List who was told of alerts first, and when: named in a message or counted in a summary."""
    return NotificationGateway(workspace.connection).list_deliveries(query.alert)


@operation("GET", "/notifications/held-back", role="viewer")
def list_held_back(workspace: "LocalWorkspace") -> list[HeldBackAlert]:
    """List alerts that fire and that silences or other alerts hold back."""
    settings = read_declared(workspace.settings)
    now = utc_now()
    rows = SilenceGateway(workspace.connection).list_all(ends_after=now, limit=_MAX_SILENCES)
    silences = {
        row.id: SilenceSummary(
            id=row.id, author=row.author, comment=row.comment, ends_at=row.ends_at
        )
        for row in rows
    }
    return [
        _describe_held_back(present, silences)
        for present in list_present_alerts(workspace.connection, settings, now)
        if present.is_held_back
    ]


@operation("POST", "/routes/test", role="viewer", changes=False)
def match_routes(workspace: "LocalWorkspace", body: LabelsBody) -> list[RouteMatch]:
    """Show which receivers an alert with some labels takes, by the workspace file."""
    now = utc_now()
    root = make_policy(read_declared(workspace.settings)).root
    return [
        RouteMatch(
            receiver=node.options.receiver,
            route=node.key,
            group=node.group_labels(body.labels),
            muted=node.is_muted(now),
        )
        for node in find_routes(root, body.labels)
    ]


@operation("GET", "/routes", role="viewer")
def list_routes(workspace: "LocalWorkspace") -> list[RouteState]:
    """Show the tree of routes, and the alerts that take each of them now."""
    now = utc_now()
    by_node: dict[str, list[RoutedAlert]] = {}
    settings = read_declared(workspace.settings)
    for present in list_present_alerts(workspace.connection, settings, now):
        for node in present.nodes:
            by_node.setdefault(node.id, []).append(_describe_alert(present))
    return [
        _describe_route(depth, node, now, by_node.get(node.id, []))
        for depth, node in walk_tree(make_policy(settings).root)
        if not node.key.startswith(_BUILT_IN)
    ]


def _describe_alert(present: PresentAlert) -> RoutedAlert:
    return RoutedAlert(
        id=present.alert.id,
        rule=present.alert.rule,
        labels=present.alert.labels,
        silenced_by=present.silenced_by,
        inhibited=present.inhibited_by is not None,
    )


def _describe_held_back(
    present: PresentAlert, silences: Mapping[UUID, SilenceSummary]
) -> HeldBackAlert:
    inhibitor = present.inhibited_by
    text = None
    if inhibitor is not None:
        labels = {name: value for name, value in inhibitor.labels.items() if name != "alertname"}
        text = f"{inhibitor.labels.get('alertname', inhibitor.rule)} {format_labels(labels)}"
    return HeldBackAlert(
        id=present.alert.id,
        silences=[silences[number] for number in present.silenced_by if number in silences],
        inhibited_by=None if inhibitor is None else inhibitor.id,
        inhibitor=text,
    )


def _describe_route(
    depth: int, node: RouteNode, now: datetime, alerts: Sequence[RoutedAlert]
) -> RouteState:
    options = node.options
    return RouteState(
        depth=depth,
        matchers=format_matchers(node.matchers),
        receiver=options.receiver,
        group_by=["..."] if options.group_by is None else sorted(options.group_by),
        group_wait_seconds=options.group_wait.total_seconds(),
        group_interval_seconds=options.group_interval.total_seconds(),
        repeat_interval_seconds=options.repeat_interval.total_seconds(),
        goes_on=node.goes_on,
        muted=node.is_muted(now),
        alerts=alerts,
    )
