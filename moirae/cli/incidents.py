"""`moirae incidents`: alerts of one failure, what people decide about them, and similar ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.alerts import (
    NoteTextArgument,
    ResolutionOptions,
    TagOption,
)
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    AuthorOption,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    check_choices,
    expand_option_groups,
    format_count,
    format_time,
    print_json,
    print_omitted_count,
    print_properties,
    print_table,
    to_seconds,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services

if TYPE_CHECKING:
    from moirae.services.operations.incidents import IncidentDetails, PastIncident
    from sql.alerts import IncidentRow

app = RemoteTyper(
    help="List incidents: alerts of one failure. Confirm, split, merge and resolve them.",
    no_args_is_help=True,
)

_STATES = ("proposed", "confirmed")
_SHOWN_RULES = 3

IncidentArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="ID of the incident or of one of its alerts, or a unique prefix."
    ),
]
AlertsArgument = Annotated[
    list[str], typer.Argument(metavar="ALERT…", help="Alert IDs, or unique prefixes.")
]
CommentOption = Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why.")]


@dataclass(frozen=True)
class IncidentOptions:
    """Which incidents to list."""

    active: Annotated[
        bool, typer.Option("--active", help="Show only incidents with an alert that fires now.")
    ] = False
    unresolved: Annotated[
        bool,
        typer.Option(
            "--unresolved", help="Show only incidents with an alert that has no resolution."
        ),
    ] = False
    state: Annotated[
        str | None,
        typer.Option("--state", help=f"Show only incidents in this state: {' or '.join(_STATES)}."),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Show only incidents that ended at this time or later; or a duration before now.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Show only incidents that started before this time; or a duration before now.",
        ),
    ] = None


@app.command("list")
@expand_option_groups
def list_(
    selected: IncidentOptions = IncidentOptions(),
    limit: LimitOption = 100,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List incidents of several alerts, and confirmed ones, newest first."""
    from moirae.services.operations.incidents import IncidentQuery, list_incidents

    check_choices("state", [selected.state] if selected.state else [], _STATES)
    query = make_query(IncidentQuery, **vars(selected))
    with open_services(workspace) as services:
        rows, omitted = collect_rows(services, list_incidents, query, "incidents", limit)
    if output is OutputFormat.JSON:
        print_json(rows)
    else:
        columns = ["id", "state", "started", "ended", "alerts", "firing", "resolved", "rules"]
        print_table(columns, map(_format_row, rows), "no incident of several alerts")
    print_omitted_count(omitted, len(rows), output)


def _format_row(row: "IncidentRow") -> tuple[Any, ...]:
    times = (to_seconds(row.starts_at), to_seconds(row.ends_at))
    counts = (row.alerts, row.firing, row.resolved)
    return (str(row.id)[:8], row.state, *times, *counts, _format_rules(row.rules))


def _format_rules(rules: Sequence[str]) -> str:
    omitted = len(rules) - _SHOWN_RULES
    ending = f" and {omitted} more" if omitted > 0 else ""
    return ", ".join(rules[:_SHOWN_RULES]) + ending


@app.command()
def show(
    incident: IncidentArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show an incident with its alerts, why each is part of it, and what people decided."""
    from moirae.services.operations.incidents import show_incident

    with open_services(workspace) as services:
        _print_incident(show_incident(services, incident), output)


def _print_incident(details: "IncidentDetails", output: OutputFormat = OutputFormat.TABLE) -> None:
    if output is OutputFormat.JSON:
        print_json(details)
        return
    ended = "an alert fires" if details.ends_at is None else format_time(details.ends_at)
    print_properties(
        [
            ("id", details.id),
            ("state", details.state),
            ("started", format_time(details.starts_at)),
            ("ended", ended),
            ("resolved", f"{details.resolved} of {format_count(details.alerts, 'alert')}"),
        ]
    )
    print()
    rows = [
        (
            str(member.alert_id)[:8],
            member.rule,
            ", ".join(f"{name}={value}" for name, value in member.key.items()),
            member.state,
            to_seconds(member.starts_at),
            member.reason,
        )
        for member in details.members
    ]
    print_table(["alert", "rule", "key", "state", "started", "why"], rows, "no alerts")
    if details.decisions:
        print()
        decided = [
            (to_seconds(entry.at), entry.author, entry.kind, entry.other or "", entry.comment)
            for entry in details.decisions
        ]
        print_table(["decided", "by", "what", "other incident", "comment"], decided, "")


@app.command()
def confirm(
    incident: IncidentArgument,
    comment: CommentOption = "",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Confirm that the alerts of an incident are of one failure."""
    from moirae.services.operations.alerts import Comment
    from moirae.services.operations.incidents import confirm_incident

    body = make_query(Comment, text=comment)
    with open_services(workspace) as services:
        details = confirm_incident(services.with_author(author), incident, body)
    print(f"incident {details.id} is confirmed, with {format_count(details.alerts, 'alert')}")


@app.command()
def split(
    incident: IncidentArgument,
    alerts: AlertsArgument,
    comment: CommentOption = "",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Make alerts of an incident one of their own. Later alerts of these rules and keys stay apart,
    too.
    """
    from moirae.services.operations.incidents import SplitBody, split_incident

    body = make_query(SplitBody, alerts=alerts, text=comment)
    with open_services(workspace) as services:
        details = split_incident(services.with_author(author), incident, body)
    print(f"incident {details.id} has {format_count(details.alerts, 'alert')} now")


@app.command()
def merge(
    merged: Annotated[
        list[str],
        typer.Argument(metavar="ID…", help="IDs of incidents that end, or of alerts of theirs."),
    ],
    into: Annotated[
        str, typer.Option("--into", metavar="ID", help="Incident that gets the alerts.")
    ],
    comment: CommentOption = "",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Put the alerts of incidents into one. Later alerts of these rules and keys that are near in
    time come together, too.
    """
    from moirae.services.operations.incidents import MergeBody, merge_incidents

    body = make_query(MergeBody, others=merged, text=comment)
    with open_services(workspace) as services:
        details = merge_incidents(services.with_author(author), into, body)
    print(f"incident {details.id} has {format_count(details.alerts, 'alert')} now")


@app.command()
@expand_option_groups
def resolve(
    incident: IncidentArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    tag: TagOption = None,
    resolution: ResolutionOptions = ResolutionOptions(),
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Record the resolution of all alerts of an incident. Their state is unaffected."""
    from moirae.services.operations.alerts import ResolutionBody
    from moirae.services.operations.incidents import resolve_incident

    body = make_query(
        ResolutionBody,
        text=text,
        tag=tag,
        effect=resolution.effect,
        superseded_by=resolution.superseded_by,
        link=resolution.link,
    )
    with open_services(workspace) as services:
        added = resolve_incident(services.with_author(author), incident, body)
    print(f"the resolution of {format_count(len(added), 'alert')} is recorded")


@app.command()
def similar(
    incident: IncidentArgument,
    limit: LimitOption = 5,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the past incidents most like one, why, and what resolved them."""
    from moirae.services.operations.incidents import SimilarQuery, list_similar_incidents

    query = make_query(SimilarQuery, limit=limit)
    with open_services(workspace) as services:
        incidents = list_similar_incidents(services, incident, query)
    if output is OutputFormat.JSON:
        print_json(incidents)
        return
    columns = ["id", "score", "started", "alerts", "in common", "resolved by"]
    print_table(
        columns,
        map(_format_similar, incidents),
        "no similar past incident: terms that all incidents have do not count",
    )


def _format_similar(entry: "PastIncident") -> tuple[Any, ...]:
    fixes = []
    for fix in entry.fixes:
        record = f" ({fix.record})" if fix.record else ""
        fixes.append(f"{fix.tag or fix.effect or fix.text}{record}")
    started = to_seconds(entry.starts_at)
    shared = ", ".join(entry.shared)
    return (
        str(entry.id)[:8],
        f"{entry.score:.2f}",
        started,
        entry.alerts,
        shared,
        "; ".join(fixes),
    )
