"""Incidents: alerts of one failure, what people decide about them, and similar ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID, uuid4

from pydantic import Field

import sql
from moirae.alerts import FixRecords
from moirae.errors import NotFound, UsageError
from moirae.services.models import (
    Arguments,
    IdPrefix,
    PageQuery,
    Time,
    decode_cursor,
    next_cursor,
    to_id_pattern,
)
from moirae.services.operation import operation
from moirae.services.operations.alerts import (
    AddedNote,
    Comment,
    ResolutionBody,
    find_alert,
    resolve_each,
)
from sql.alerts import (
    AlertNoteGateway,
    IncidentAlertRow,
    IncidentDecisionRow,
    IncidentFilter,
    IncidentGateway,
    IncidentRow,
)

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

_MAX_ALERTS = 1_000  # of one request
_MAX_PAST = 1_000  # incidents that are compared
_MAX_SIMILAR = 50


class IncidentQuery(PageQuery):
    """Which incidents to list."""

    active: bool = Field(False, description="Only incidents with an alert that fires now.")
    unresolved: bool = Field(
        False, description="Only incidents with an alert that has no resolution."
    )
    alert: UUID | None = Field(None, description="Only the incident that this alert is in.")
    state: Literal["proposed", "confirmed"] | None = Field(
        None, description="Only incidents in this state."
    )
    since: Time | None = Field(None, description="Only incidents that ended at this time or later.")
    until: Time | None = Field(None, description="Only incidents that started before this time.")


class SplitBody(Comment):
    """Which alerts of an incident are of another failure."""

    alerts: list[IdPrefix] = Field(
        min_length=1,
        max_length=_MAX_ALERTS,
        description="IDs of the alerts that become an incident of their own, or unique prefixes.",
    )


class MergeBody(Comment):
    """Which incidents are the same failure."""

    others: list[IdPrefix] = Field(
        min_length=1,
        max_length=_MAX_ALERTS,
        description="IDs of incidents, or of alerts, which end in this incident with all alerts of "
        "theirs.",
    )


class SimilarQuery(Arguments):
    """How many incidents to show."""

    limit: int = Field(5, ge=1, le=_MAX_SIMILAR, description="Maximum number of incidents.")


@dataclass(frozen=True)
class IncidentPage:
    """Incidents, newest first. `next`: cursor of the next page. `total`: if it was asked for."""

    incidents: Sequence[IncidentRow]
    next: str | None
    total: int | None


@dataclass(frozen=True, slots=True)
class IncidentDetails(IncidentRow):
    """An incident with its alerts, oldest first, and what people decided about it."""

    members: Sequence[IncidentAlertRow]
    decisions: Sequence[IncidentDecisionRow]


@dataclass(frozen=True)
class IncidentFix:
    """What resolved alerts of an incident. `alerts`: how many. `record`: what became of the tag
    elsewhere, such as `worked 5 of 6 times`; None without a tag.
    """

    tag: str | None
    effect: str | None
    superseded_by: str | None
    text: str
    link: str | None
    author: str
    alerts: int
    record: str | None


@dataclass(frozen=True, slots=True)
class PastIncident(IncidentRow):
    """A similar past incident. `score`: from 0 to 1. `shared`: terms, those that add most first.

    `fixes`: what resolved its alerts, the most frequent first.
    """

    score: float
    shared: Sequence[str]
    fixes: Sequence[IncidentFix]


@operation("GET", "/incidents", role="viewer")
def list_incidents(workspace: "LocalWorkspace", query: IncidentQuery) -> IncidentPage:
    """List incidents of several alerts, and confirmed ones, newest first."""
    selection = IncidentFilter(
        active=query.active,
        unresolved=query.unresolved,
        alert=query.alert,
        state=query.state,
        since=query.since,
        until=query.until,
        after=decode_cursor(query.cursor, datetime.fromisoformat, UUID),
    )
    gateway = IncidentGateway(workspace.connection)
    incidents = gateway.list_newest(selection, limit=query.limit)
    following = next_cursor(incidents, query.limit, lambda row: (row.starts_at, row.id))
    total = gateway.count_newest(selection) if query.count else None
    return IncidentPage(incidents, following, total)


@operation("GET", "/incidents/{incident}", role="viewer")
def show_incident(workspace: "LocalWorkspace", incident: IdPrefix) -> IncidentDetails:
    """Show an incident with its alerts, why each is part of it, and what people decided.

    The ID of an alert shows the incident that it is in.
    """
    row = _find(workspace.connection, incident)
    gateway = IncidentGateway(workspace.connection)
    return IncidentDetails(
        **asdict(row),
        members=gateway.list_members([row.id]),
        decisions=gateway.list_decisions_of(row.id),
    )


@operation("POST", "/incidents/{incident}/confirm", role="operator")
def confirm_incident(
    workspace: "LocalWorkspace", incident: IdPrefix, body: Comment
) -> IncidentDetails:
    """Confirm that the alerts of an incident are of one failure."""
    gateway = IncidentGateway(workspace.connection)
    gateway.lock_decisions()
    row = _find(workspace.connection, incident)
    gateway.add_decision(row.id, "confirm", workspace.author, body.text)
    gateway.confirm(row.id)
    return show_incident.function(workspace, str(row.id))


@operation("POST", "/incidents/{incident}/split", role="operator")
def split_incident(
    workspace: "LocalWorkspace", incident: IdPrefix, body: SplitBody
) -> IncidentDetails:
    """Make alerts of an incident one of their own, which is shown. Later alerts of the same rules
    and keys stay apart, too, until such incidents are merged.
    """
    connection, gateway = workspace.connection, IncidentGateway(workspace.connection)
    gateway.lock_decisions()
    source = _find(connection, incident)
    alerts = {find_alert(connection, prefix).id for prefix in body.alerts}
    members = gateway.list_members([source.id])
    if missing := alerts - {member.alert_id for member in members}:
        raise UsageError(f"alert {min(missing)} is not of incident {source.id}")
    if len(alerts) == len(members):
        raise UsageError("these are all alerts of the incident: leave out those that remain in it")
    parted = uuid4()
    gateway.add_decision(
        source.id,
        "split",
        workspace.author,
        body.text,
        other=parted,
        series=_list_series(member for member in members if member.alert_id in alerts),
        other_series=_list_series(member for member in members if member.alert_id not in alerts),
    )
    gateway.confirm(source.id)
    gateway.split(parted, alerts, f"{workspace.author} parted it from incident {source.id}")
    return show_incident.function(workspace, str(parted))


@operation("POST", "/incidents/{incident}/merge", role="operator")
def merge_incidents(
    workspace: "LocalWorkspace", incident: IdPrefix, body: MergeBody
) -> IncidentDetails:
    """Put all alerts of other incidents into one. Later alerts of the same rules and keys that are
    near in time come together, too, until such incidents are split.
    """
    connection, gateway = workspace.connection, IncidentGateway(workspace.connection)
    gateway.lock_decisions()
    target = _find(connection, incident)
    merged = {_find(connection, prefix).id for prefix in body.others}
    if target.id in merged:
        raise UsageError(f"incident {target.id} is named twice")
    for other in sorted(merged):
        gateway.add_decision(
            target.id,
            "merge",
            workspace.author,
            body.text,
            other=other,
            series=_list_series(gateway.list_members([other])),
            other_series=_list_series(gateway.list_members([target.id])),
        )
        gateway.merge(other, target.id, f"{workspace.author} merged incident {other} into this one")
    return show_incident.function(workspace, str(target.id))


@operation("POST", "/incidents/{incident}/resolve", role="operator")
def resolve_incident(
    workspace: "LocalWorkspace", incident: IdPrefix, body: ResolutionBody
) -> list[AddedNote]:
    """Record the same resolution of all alerts of an incident."""
    row = _find(workspace.connection, incident)
    members = IncidentGateway(workspace.connection).list_members([row.id])
    return resolve_each(
        workspace,
        body,
        [
            (member.alert_id, member.rule, member.starts_at)
            for member in members
            if member.state != "withdrawn"
        ],
    )


@operation("GET", "/incidents/{incident}/similar", role="viewer")
def list_similar_incidents(
    workspace: "LocalWorkspace", incident: IdPrefix, query: SimilarQuery
) -> list[PastIncident]:
    """Show the past incidents most like one, by the contexts of all of their alerts, with what
    resolved them.
    """
    from moirae.incidents import load_contexts, rank_similar

    gateway = IncidentGateway(workspace.connection)
    present = _find(workspace.connection, incident)
    past = gateway.list_newest(IncidentFilter(until=present.starts_at), limit=_MAX_PAST)
    rows = {row.id: row for row in past if row.id != present.id}
    contexts = load_contexts(gateway, [present, *rows.values()])
    similar = rank_similar(contexts[0], contexts[1:], query.limit)
    fixes = _load_fixes(workspace.connection, [entry.id for entry in similar])
    return [
        PastIncident(
            **asdict(rows[entry.id]),
            score=entry.score,
            shared=entry.shared,
            fixes=fixes.get(entry.id, []),
        )
        for entry in similar
    ]


def _find(connection: sql.Connection, prefix: str) -> IncidentRow:
    """The incident whose ID, or that of one of its alerts, starts with `prefix`.

    Raises `NotFound`, `UsageError`.
    """
    pattern = to_id_pattern(prefix)
    gateway = IncidentGateway(connection)
    incidents = gateway.find(pattern, limit=2) if pattern else []
    if len(incidents) > 1:
        raise UsageError(
            f"ambiguous: {prefix!a} matches several incidents; give more characters of the ID"
        )
    row = gateway.get(incidents[0]) if incidents else None
    if row is None:
        raise NotFound(
            f"no incident {prefix!r}, nor an alert that is in one: `moirae incidents list` shows "
            "all IDs"
        )
    return row


def _list_series(members: Iterable[IncidentAlertRow]) -> list[str]:
    return sorted({member.series for member in members})


def _load_fixes(
    connection: sql.Connection, incidents: Sequence[UUID]
) -> Mapping[UUID, Sequence[IncidentFix]]:
    """What resolved the alerts of incidents, by incident: of each alert its last resolution."""
    members = IncidentGateway(connection).list_members(incidents)
    notes = AlertNoteGateway(connection).list_by_alerts([member.alert_id for member in members])
    resolutions = {note.alert_id: note for note in notes if note.kind == "resolution"}
    records = FixRecords(connection)
    alerts_by_fix: dict[UUID, dict[IncidentFix, int]] = {}
    for member in members:
        note = resolutions.get(member.alert_id)
        if note is None:
            continue
        record = None
        if note.tag is not None:
            record = records.describe(member.rule).get(note.tag)
        fix = IncidentFix(
            tag=note.tag,
            effect=note.effect,
            superseded_by=note.superseded_by,
            text=note.text,
            link=note.link,
            author=note.author,
            alerts=0,
            record=record,
        )
        counts = alerts_by_fix.setdefault(member.incident, {})
        counts[fix] = counts.get(fix, 0) + 1
    return {
        incident: [
            replace(fix, alerts=counts[fix]) for fix in sorted(counts, key=lambda fix: -counts[fix])
        ]
        for incident, counts in alerts_by_fix.items()
    }
