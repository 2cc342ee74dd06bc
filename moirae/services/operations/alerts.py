"""List, search, show and annotate alerts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from uuid import UUID

from pydantic import Field
from typing_extensions import TypedDict

import sql
from moirae.alerts import Effect, NoteKind, Outcome, add_note
from moirae.errors import NotFound, UsageError
from moirae.inspect.past_events import RecallAnswer, SimilarEvent
from moirae.services.models import (
    Arguments,
    IdPrefix,
    Name,
    NoteText,
    PageQuery,
    SearchText,
    Time,
    decode_cursor,
    next_cursor,
    shaped_text,
    to_id_pattern,
)
from moirae.services.operation import operation
from moirae.services.operations.events import EventDetails, describe_event, load_event_answers
from sql.alerts import (
    AlertFilter,
    AlertGateway,
    AlertNoteGateway,
    AlertNoteRow,
    AlertRow,
    NewAlertNote,
)
from sql.stages import HistoryChangeRow, RecalledEventGateway

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

_MAX_LABEL_LENGTH = 500  # characters of name and value
AlertState = Literal["pending", "firing", "resolved", "provisional", "withdrawn"]
Label = Annotated[
    str,
    *shaped_text(
        r"[^=\x00]+=[^\x00]*", "NAME=VALUE, such as severity=page", max_length=_MAX_LABEL_LENGTH
    ),
]
_MAX_LABELS = 20
Link = Annotated[str, Field(min_length=1, max_length=2_000)]
_MAX_OVERVIEW = 100  # alerts
_MAX_NORM_ROWS = 5  # of an SQL recall in an overview
_OPEN_RECALL_STATES = ("waiting", "running", "suspended")


class _NoteDetails(TypedDict, total=False):
    """What notes of some kinds have beside their text; see `sql.alerts.AlertNoteRow`."""

    assignee: str | None
    result: str | None
    outcome: Outcome | None


_NO_DETAILS: _NoteDetails = {}


class AlertQuery(PageQuery):
    """Which alerts to list."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    state: list[AlertState] | None = Field(None, description="Only alerts in one of these states.")
    all: bool = Field(
        False,
        description="Include withdrawn alerts, pending alerts that never fired, and alerts found "
        "in history. Implied by `state`.",
    )
    active: bool = Field(
        False,
        description="Only alerts that fire now, also those that are provisional because their "
        "events are not settled yet.",
    )
    text: SearchText | None = Field(
        None, description="Search in rule, key, labels, annotations and notes, ignoring case."
    )
    label: list[Label] | None = Field(
        None, max_length=_MAX_LABELS, description="Labels that an alert has: NAME=VALUE."
    )
    since: Time | None = Field(None, description="Only alerts that ended at this time or later.")
    until: Time | None = Field(None, description="Only alerts that started before this time.")


class Comment(Arguments):
    """A text about an alert."""

    text: NoteText = Field("", description="Text of the note.")


class NoteBody(Arguments):
    """A note about an alert."""

    text: NoteText = Field(description="Text of the note; must not be blank.")


class ResolutionBody(NoteBody):
    """How an alert was resolved."""

    tag: Name | None = Field(
        None, description="Tag that groups resolutions of the same cause, for example restart."
    )
    effect: Effect | None = Field(
        None,
        description="For a resolution that is no fix: no action needed, did not help, or "
        "superseded. Recalls do not learn its tag as a remedy.",
    )
    superseded_by: Name | None = Field(
        None, description="Of a superseded remedy: the tag of what is done instead."
    )
    link: Link | None = Field(
        None, description="Web address of a post-mortem or ticket, for example https://…"
    )


class CheckedStep(Arguments):
    """A step that was checked to find the cause of an alert."""

    step: NoteText = Field(description="What was done: a query, a command, a look; not blank.")
    result: NoteText = Field("", description="What it showed.")
    outcome: Outcome = Field(
        "open", description="What follows for the suspicion: ruled out, confirmed, or open."
    )


class Assignment(Comment):
    """Who is responsible for an alert."""

    assignee: Name = Field(description="Name of a person or team.")


@dataclass(frozen=True)
class AlertPage:
    """Alerts, newest first. `next`: cursor of the next page. `total`: if it was asked for."""

    alerts: Sequence[AlertRow]
    next: str | None
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDetails(AlertRow):
    """An alert with its notes.

    `decisions`: of the condition `where`, oldest first, with their reasons.
    """

    notes: Sequence[AlertNoteRow]
    decisions: Sequence[HistoryChangeRow]


@dataclass(frozen=True)
class AddedNote:
    """A stored note, and the alert that it is about."""

    kind: NoteKind
    alert: UUID
    rule: str
    starts_at: datetime
    author: str


@dataclass(frozen=True)
class AlertReport:
    """All that is known about an alert, for one page.

    `event`: its first event with contexts and surroundings; None if it has been deleted. `recalls`:
    the last answers with coverage and remaining seconds. `url`: the address of the page.
    """

    alert: AlertDetails
    event: EventDetails | None
    recalls: Sequence[RecallAnswer]
    url: str


class OverviewQuery(Arguments):
    """How many alerts to show."""

    limit: int = Field(20, ge=1, le=_MAX_OVERVIEW, description="Maximum number of alerts.")


@dataclass(frozen=True)
class AlertOverview:
    """A firing alert at a glance.

    `norms`: the last answer of each SQL recall, by its name. `best`: the most similar past event;
    None: none so far. `comparable`: the probability that it is of the same kind, None if unknown.
    `is_final`: whether all recalls have ended.
    """

    alert: AlertRow
    norms: Mapping[str, Sequence[Mapping[str, Any]]]
    best: SimilarEvent | None
    comparable: float | None
    is_final: bool


@operation("GET", "/overview", role="viewer")
def show_overview(workspace: "LocalWorkspace", query: OverviewQuery) -> list[AlertOverview]:
    """Show the newest firing alerts, each with its norms and its most similar past event."""
    selection = AlertFilter(active=True)
    alerts = AlertGateway(workspace.connection).list_newest(selection, limit=query.limit)
    return [_summarize_alert(alert, load_event_answers(workspace, alert.eid)) for alert in alerts]


def _summarize_alert(alert: AlertRow, answers: Sequence[RecallAnswer]) -> AlertOverview:
    norms: dict[str, Sequence[Mapping[str, Any]]] = {}
    best: SimilarEvent | None = None
    comparable = None
    for answer in answers:
        if answer.rows is not None:
            norms[answer.recall] = answer.rows[:_MAX_NORM_ROWS]
        if answer.hits and (best is None or answer.hits[0].score > best.score):
            best = answer.hits[0]
            comparable = answer.comparable
    is_final = not any(answer.state in _OPEN_RECALL_STATES for answer in answers)
    return AlertOverview(alert, norms, best, comparable, is_final)


@operation("GET", "/alerts", role="viewer")
def list_alerts(workspace: "LocalWorkspace", query: AlertQuery) -> AlertPage:
    """List or search alerts, newest first."""
    labels = None
    if query.label:
        labels = dict(label.split("=", 1) for label in query.label)
    selection = AlertFilter(
        rule=query.rule,
        states=query.state,
        include_all=query.all or bool(query.state),
        active=query.active,
        labels=labels,
        text=query.text,
        since=query.since,
        until=query.until,
        after=decode_cursor(query.cursor, datetime.fromisoformat, UUID),
    )
    gateway = AlertGateway(workspace.connection)
    alerts = gateway.list_newest(selection, limit=query.limit)
    following = next_cursor(alerts, query.limit, lambda alert: (alert.starts_at, alert.id))
    return AlertPage(alerts, following, gateway.count_newest(selection) if query.count else None)


@operation("GET", "/alerts/{alert}", role="viewer")
def show_alert(workspace: "LocalWorkspace", alert: IdPrefix) -> AlertDetails:
    """Show an alert with its labels, times, notes and the decisions of its condition."""
    row = find_alert(workspace.connection, alert)
    return _describe(workspace, row)


@operation("GET", "/alerts/{alert}/report", role="viewer")
def show_report(workspace: "LocalWorkspace", alert: IdPrefix) -> AlertReport:
    """Show an alert with notes, context, surroundings, recall answers and similar past events."""
    row = find_alert(workspace.connection, alert)
    return AlertReport(
        alert=_describe(workspace, row),
        event=describe_event(workspace.connection, row.eid),
        recalls=load_event_answers(workspace, row.eid),
        url=f"{workspace.settings.server.public_url}/alerts/{row.id}",
    )


@operation("POST", "/alerts/{alert}/ack", role="operator")
def acknowledge(workspace: "LocalWorkspace", alert: IdPrefix, body: Comment) -> AddedNote:
    """Acknowledge an alert."""
    return _add_note(workspace, alert, "ack", body.text or "acknowledged")


@operation("POST", "/alerts/{alert}/notes", role="operator")
def annotate(workspace: "LocalWorkspace", alert: IdPrefix, body: NoteBody) -> AddedNote:
    """Add a note to an alert."""
    return _add_note(workspace, alert, "note", body.text)


@operation("POST", "/alerts/{alert}/assign", role="operator")
def assign(workspace: "LocalWorkspace", alert: IdPrefix, body: Assignment) -> AddedNote:
    """Assign an alert to a person or team. A later assignment replaces it."""
    if not body.assignee.strip():
        raise UsageError("the assignee must not be empty")
    text = body.text or f"assigned to {body.assignee}"
    return _add_note(workspace, alert, "assign", text, {"assignee": body.assignee})


@operation("POST", "/alerts/{alert}/resolve", role="operator")
def resolve(workspace: "LocalWorkspace", alert: IdPrefix, body: ResolutionBody) -> AddedNote:
    """Record the resolution of an alert. Its state is unaffected. A later one takes its place; the
    notes of the alert have both.
    """
    return _store_note(workspace, alert, _make_resolution(workspace.author, "resolution", body))


@operation("POST", "/alerts/{alert}/checked", role="operator")
def check_step(workspace: "LocalWorkspace", alert: IdPrefix, body: CheckedStep) -> AddedNote:
    """Record a step that was checked. Similar alerts in the future show it."""
    details: _NoteDetails = {"result": body.result, "outcome": body.outcome}
    return _add_note(workspace, alert, "checked", body.step, details)


@operation("POST", "/alerts/{alert}/proposals", role="operator")
def propose(workspace: "LocalWorkspace", alert: IdPrefix, body: ResolutionBody) -> AddedNote:
    """Propose a resolution, as agents do. It counts when a person confirms it."""
    return _store_note(workspace, alert, _make_resolution(workspace.author, "proposal", body))


@operation("POST", "/alerts/{alert}/confirm", role="operator")
def confirm(workspace: "LocalWorkspace", alert: IdPrefix) -> AddedNote:
    """Confirm the newest proposed resolution of an alert: it becomes one of the person's own."""
    row = find_alert(workspace.connection, alert)
    notes = AlertNoteGateway(workspace.connection).list_by_alerts([row.id])
    proposals = [note for note in notes if note.kind == "proposal"]
    if not proposals:
        raise NotFound(f"no resolution is proposed for alert {row.id}")
    newest = proposals[-1]
    note = NewAlertNote(
        kind="resolution",
        author=workspace.author,
        text=newest.text,
        tag=newest.tag,
        effect=newest.effect,
        superseded_by=newest.superseded_by,
        link=newest.link,
    )
    return _store_note(workspace, str(row.id), note)


def _make_resolution(author: str, kind: NoteKind, body: ResolutionBody) -> NewAlertNote:
    """The note of a resolution or a proposal."""
    effect = body.effect
    if effect is None and body.superseded_by is not None:
        effect = "superseded"
    return NewAlertNote(
        kind=kind,
        author=author,
        text=body.text,
        tag=body.tag,
        effect=effect,
        superseded_by=body.superseded_by,
        link=body.link,
    )


def resolve_each(
    workspace: "LocalWorkspace",
    body: ResolutionBody,
    alerts: Iterable[tuple[UUID, str, datetime]],
) -> list[AddedNote]:
    """Record the same resolution of several alerts: of each its ID, rule and start."""
    note = _make_resolution(workspace.author, "resolution", body)
    return [_annotate(workspace, note, *alert) for alert in alerts]


def find_alert(connection: sql.Connection, prefix: str) -> AlertRow:
    """The alert whose ID or event ID starts with `prefix`. Raises `UsageError`."""
    pattern = to_id_pattern(prefix)
    alerts: list[AlertRow] = []
    if pattern:
        # Two alerts are enough to know that the prefix is ambiguous.
        alerts = AlertGateway(connection).list_by_prefix(pattern, limit=2)
    if not alerts:
        raise NotFound(f"no alert {prefix!r}: `moirae alerts list --all` shows all IDs")
    if len(alerts) > 1:
        raise UsageError(
            f"ambiguous: {prefix!a} matches several alerts; give more characters of the ID"
        )
    return alerts[0]


def _describe(workspace: "LocalWorkspace", alert: AlertRow) -> AlertDetails:
    notes = AlertNoteGateway(workspace.connection).list_by_alerts([alert.id])
    decisions = RecalledEventGateway(workspace.connection).list_history(alert.id)
    return AlertDetails(**asdict(alert), notes=notes, decisions=decisions)


def _add_note(
    workspace: "LocalWorkspace",
    prefix: str,
    kind: NoteKind,
    text: str,
    details: _NoteDetails = _NO_DETAILS,
) -> AddedNote:
    note = NewAlertNote(kind=kind, author=workspace.author, text=text, **details)
    return _store_note(workspace, prefix, note)


def _store_note(workspace: "LocalWorkspace", prefix: str, note: NewAlertNote) -> AddedNote:
    alert = find_alert(workspace.connection, prefix)
    return _annotate(workspace, note, alert.id, alert.rule, alert.starts_at)


def _annotate(
    workspace: "LocalWorkspace", note: NewAlertNote, alert: UUID, rule: str, starts_at: datetime
) -> AddedNote:
    add_note(workspace.connection, alert, note)
    return AddedNote(cast(NoteKind, note.kind), alert, rule, starts_at, workspace.author)
