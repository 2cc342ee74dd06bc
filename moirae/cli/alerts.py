"""`moirae alerts`: list, inspect and annotate alerts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archiver.clock import utc_now
from moirae.cli.answers import print_answers
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    AuthorOption,
    LimitOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    check_choices,
    expand_option_groups,
    format_time,
    print_json,
    print_omitted_count,
    print_properties,
    print_table,
    to_seconds,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services
from moirae.config import format_duration, parse_duration
from moirae.errors import UsageError
from sql.alerts import AlertNoteRow, AlertRow
from sql.stages import HistoryChangeRow

if TYPE_CHECKING:
    from moirae.inspect.past_events import RecallAnswer
    from moirae.services import Operation
    from moirae.services.operations.alerts import AddedNote, AlertDetails

app = RemoteTyper(help="List, inspect and annotate alerts.", no_args_is_help=True)

_MAX_HITS = 3  # similar alerts that are shown with an alert
_STATES = ("pending", "firing", "resolved", "provisional", "withdrawn")
_STATE_DESCRIPTIONS = {
    "provisional": "detected but not settled: its start may still change",
    "pending": "events have not lasted as long as the rule's `for`",
    "firing": "events continue",
    "resolved": "events have stopped",
    "withdrawn": "detected, but not confirmed when its events were settled",
}
_HISTORICAL_DESCRIPTION = "ended before the rule was applied; found in history"
_HISTORY_DESCRIPTIONS = {
    "waiting": "the rule's `where` is not known yet",
    "kept": "the rule's `where` is true",
    "withdrawn": "the rule's `where` is false",
    "no_history": "the rule's `where` has no answer to use",
}

AlertArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Alert or event ID, or a unique prefix of it.")
]
NoteTextArgument = Annotated[str, typer.Argument(help="Text of the note.")]
TagOption = Annotated[
    str | None,
    typer.Option(
        "--tag", help="Tag that groups resolutions of the same cause, for example restart."
    ),
]


@dataclass(frozen=True)
class ResolutionOptions:
    """What a resolution has beside its text and tag."""

    no_action_needed: Annotated[
        bool, typer.Option("--no-action-needed", help="The alert ended without any action.")
    ] = False
    did_not_help: Annotated[
        bool, typer.Option("--did-not-help", help="What was tried did not help.")
    ] = False
    superseded_by: Annotated[
        str | None,
        typer.Option("--superseded-by", metavar="TAG", help="Tag of what is done instead."),
    ] = None
    link: Annotated[
        str | None,
        typer.Option("--link", metavar="URL", help="Web address of a post-mortem or ticket."),
    ] = None

    @property
    def effect(self) -> str | None:
        """The effect that one of the options names. Raises `UsageError` for several."""
        effects = {
            "no action needed": self.no_action_needed,
            "did not help": self.did_not_help,
            "superseded": self.superseded_by is not None,
        }
        named = [name for name, is_named in effects.items() if is_named]
        if len(named) > 1:
            raise UsageError(f"a resolution has one effect, not: {', '.join(named)}")
        return named[0] if named else None


AlertStateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        help=f"Show only alerts in this state: {', '.join(_STATES)}. "
        "For all alerts that fire now use --active.",
    ),
]


@dataclass(frozen=True)
class AlertSelection:
    """The options that select alerts."""

    rule: RuleOption = None
    state: AlertStateOption = None
    active: Annotated[
        bool,
        typer.Option(
            "--active",
            help="Show only alerts that fire now, also provisional ones, as the dashboard's page "
            "Now does.",
        ),
    ] = False
    include_all: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Include withdrawn alerts, pending alerts that never fired, and alerts found in "
            "history.",
        ),
    ] = False
    search: Annotated[
        str | None,
        typer.Option(
            "--search", metavar="TEXT", help="Search in rule, key, labels, annotations and notes."
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Show only alerts with this label."),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Show only alerts that ended at this time or later: 2026-01-31T12:00Z, or 7d for "
            "7 days ago.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Show only alerts that started before this time."
        ),
    ] = None


@app.command("list")
@expand_option_groups
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    selection: AlertSelection = AlertSelection(),
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the newest alerts, or search all alerts."""
    from moirae.services.operations.alerts import AlertQuery, list_alerts

    check_choices("state", selection.state or (), _STATES)
    query = make_query(
        AlertQuery,
        rule=selection.rule,
        state=selection.state,
        active=selection.active,
        all=selection.include_all,
        text=selection.search,
        label=selection.label,
        since=parse_moment("--since", selection.since),
        until=parse_moment("--until", selection.until),
    )
    with open_services(workspace) as services:
        alerts, omitted = collect_rows(services, list_alerts, query, "alerts", limit)
    if output is OutputFormat.JSON:
        print_json(alerts)
    else:
        columns = [
            "starts",
            "duration",
            "state",
            "severity",
            "rule",
            "summary",
            "acknowledged by",
            "assigned to",
            "id",
        ]
        print_table(columns, map(_format_row, alerts), "no alerts")
    print_omitted_count(omitted, len(alerts), output)


@app.command()
def show(
    alert_id: AlertArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show an alert with its labels, times, notes, the decisions of its condition, and the most
    similar past alerts.
    """
    from moirae.services.operations.alerts import show_alert, show_report

    if output is OutputFormat.JSON:
        with open_services(workspace) as services:
            print_json(show_alert(services, alert_id))
        return
    with open_services(workspace) as services:
        report = show_report(services, alert_id)
    print_properties(_list_properties(report.alert))
    best = _select_best(report.recalls)
    if best:
        print_answers(best)


def _select_best(answers: "Sequence[RecallAnswer]") -> "list[RecallAnswer]":
    """The answers that name similar events, with the first of these."""
    return [replace(answer, hits=answer.hits[:_MAX_HITS]) for answer in answers if answer.hits]


@app.command()
def ack(
    alert_id: AlertArgument,
    text: NoteTextArgument = "",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Acknowledge an alert."""
    from moirae.services.operations.alerts import Comment, acknowledge

    _add_note(workspace, acknowledge, alert_id, author, make_query(Comment, text=text))


@app.command()
def note(
    alert_id: AlertArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Add a note to an alert."""
    from moirae.services.operations.alerts import NoteBody, annotate

    _add_note(workspace, annotate, alert_id, author, make_query(NoteBody, text=text))


@app.command()
def assign(
    alert_id: AlertArgument,
    assignee: Annotated[str, typer.Argument(help="Person or team responsible for the alert.")],
    text: NoteTextArgument = "",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Assign an alert to a person or team. A later assignment replaces it."""
    from moirae.services.operations import alerts

    body = make_query(alerts.Assignment, assignee=assignee, text=text)
    _add_note(workspace, alerts.assign, alert_id, author, body)


@app.command()
@expand_option_groups
def resolve(
    alert_id: AlertArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    tag: TagOption = None,
    resolution: ResolutionOptions = ResolutionOptions(),
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="ID", help="Another alert with the same resolution."),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Record the resolution of an alert, or of several. Their state is unaffected. A later one
    takes its place; the notes of the alert have both.
    """
    from moirae.services.operations.fixes import ResolutionOfAlerts, resolve_alerts

    body = make_query(
        ResolutionOfAlerts,
        alerts=[alert_id, *(also or [])],
        text=text,
        tag=tag,
        effect=resolution.effect,
        superseded_by=resolution.superseded_by,
        link=resolution.link,
    )
    with open_services(workspace) as services:
        for added in resolve_alerts(services.with_author(author), body):
            _print_added(added)


@app.command()
def checked(
    alert_id: AlertArgument,
    step: Annotated[str, typer.Argument(help="What was done: a query, a command, a look.")],
    result: Annotated[str, typer.Option("--result", help="What it showed.")] = "",
    outcome: Annotated[
        str, typer.Option("--outcome", help="ruled out, confirmed or open.", metavar="OUTCOME")
    ] = "open",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Record a step that was checked. Similar alerts in the future show it."""
    from moirae.services.operations import alerts

    body = make_query(alerts.CheckedStep, step=step, result=result, outcome=outcome)
    _add_note(workspace, alerts.check_step, alert_id, author, body)


@app.command()
def propose(
    alert_id: AlertArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    tag: TagOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Propose a resolution, as agents do. It counts when a person confirms it."""
    from moirae.services.operations import alerts

    body = make_query(alerts.ResolutionBody, text=text, tag=tag)
    _add_note(workspace, alerts.propose, alert_id, author, body)


@app.command()
def confirm(
    alert_id: AlertArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Confirm the newest proposed resolution of an alert."""
    from moirae.services.operations import alerts

    _add_note(workspace, alerts.confirm, alert_id, author)


def _add_note(
    workspace: Path,
    operation: "Operation[..., AddedNote]",
    alert_id: str,
    author: str | None,
    *body: Any,
) -> None:
    with open_services(workspace) as services:
        added = operation(services.with_author(author), alert_id, *body)
    _print_added(added)


def _print_added(added: "AddedNote") -> None:
    print(f"added {added.kind} to {added.rule} of {format_time(added.starts_at)}")


def parse_moment(option: str, text: str | None) -> datetime | None:
    """A time as ISO 8601 text, or as a duration before now. Raises `UsageError`."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return utc_now() - parse_duration(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option}: {text[:80]!r} is not a time such as 2026-01-31T12:00Z, nor a duration "
            "such as 7d"
        ) from error


def _format_row(alert: AlertRow) -> tuple[Any, ...]:
    return (
        alert.starts_at,
        _format_duration(alert),
        alert.state,
        alert.labels.get("severity"),
        alert.rule,
        alert.annotations.get("summary") or alert.key,
        alert.acknowledged_by or "",
        alert.assigned_to or "",
        alert.id,
    )


def _list_properties(alert: "AlertDetails") -> Iterator[tuple[str, Any]]:
    description = _STATE_DESCRIPTIONS[alert.state]
    if alert.past:
        description = _HISTORICAL_DESCRIPTION
    yield "alert", alert.labels.get("alertname")
    yield "state", f"{alert.state}: {description}"
    yield from alert.annotations.items()
    yield "key", alert.key
    yield "labels", alert.labels
    yield "started", alert.starts_at
    yield "fired", alert.fired_at
    yield "last event", alert.last_at
    yield "ended", alert.ends_at
    yield "duration", _format_duration(alert)
    yield "events", alert.events
    if alert.history:
        finality = "" if alert.history_final else " so far"
        yield "history", f"{alert.history}: {_HISTORY_DESCRIPTIONS[alert.history]}{finality}"
    for decision in alert.decisions:
        yield f"history {decision.history}", _format_decision(decision)
    yield "rule", f"{alert.rule} (version {alert.version})"
    yield "first event", alert.eid
    yield "id", alert.id
    for note in alert.notes:
        yield f"{note.kind} by {note.author}", _format_note(note)


def _format_decision(decision: HistoryChangeRow) -> str:
    finality = ", final" if decision.final else ""
    return f"{format_time(to_seconds(decision.at))}: {decision.reason}{finality}"


def _format_note(note: AlertNoteRow) -> str:
    tag = f" [{note.tag}]" if note.tag else ""
    if note.recorded_tag is not None:
        tag = f" [{note.tag}, recorded as {note.recorded_tag}]"
    if note.effect is not None:
        tag += (
            f" {note.effect}"
            if note.superseded_by is None
            else f" superseded by {note.superseded_by}"
        )
    if note.link is not None:
        tag += f" {note.link}"
    if note.outcome is not None:
        tag = f": {note.result} [{note.outcome}]" if note.result else f" [{note.outcome}]"
    return f"{note.text}{tag} ({format_time(to_seconds(note.at))})"


def _format_duration(alert: "AlertRow | AlertDetails") -> str:
    """From the start to the end, or to the last event of an alert that has not ended."""
    span: timedelta = (alert.ends_at or alert.last_at) - alert.starts_at
    text = format_duration(timedelta(seconds=round(span.total_seconds())))
    return text if alert.ends_at else f"{text} so far"
