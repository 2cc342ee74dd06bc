"""`moirae events`: list and inspect events."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    EventArgument,
    LimitOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    escape_control,
    print_json,
    print_omitted_count,
    print_properties,
    print_table,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services
from sql.events import StoredEventRow

if TYPE_CHECKING:
    from moirae.services.operations.events import EventDetails
    from moirae.services.operations.recent_changes import ListedChange

app = RemoteTyper(help="List and inspect events.", no_args_is_help=True)

_MAX_CONTEXT_ROWS = 20  # different rows of a context that are shown


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rule: RuleOption = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the newest events."""
    from moirae.services.operations.events import EventQuery, list_events

    query = make_query(EventQuery, rule=rule)
    with open_services(workspace) as services:
        events, omitted = collect_rows(services, list_events, query, "events", limit)
    if output is OutputFormat.JSON:
        print_json(events)
    else:
        columns = ["ts", "rule", "attributes", "state", "eid"]
        print_table(columns, map(_format_row, events), "no events")
    print_omitted_count(omitted, len(events), output)


@app.command()
def show(
    eid: EventArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show an event with its attributes, contexts and surroundings."""
    from moirae.services.operations.events import show_event

    with open_services(workspace) as services:
        details = show_event(services, eid)
    event = asdict(details)
    for name in ("contexts", "surroundings", "settled_context"):
        del event[name]
    row_counts = event.pop("truncated")
    if output is OutputFormat.JSON:
        if details.contexts is not None:
            event["contexts"] = details.contexts
            event["surroundings"] = details.surroundings
        print_json({**event, "truncated": row_counts})
        return
    for name, value in event.pop("attributes").items():
        event[f"event.{name}"] = value
    print_properties([*event.items(), *_format_contexts(details)])


@app.command()
def changes(
    eid: EventArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    within: Annotated[str, typer.Option(help="How long before the event a change may be.")] = "6h",
    span: Annotated[
        str, typer.Option("--range", help="The hours of so long before the event are compared.")
    ] = "56d",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show what changed near an event in time and place.

    First those changes whose kind came before alerts of the rule more often than before other hours.
    This is no statement of cause.
    """
    from moirae.services.operations.recent_changes import ChangesQuery, list_changes

    query = make_query(ChangesQuery, within=within, range=span)
    with open_services(workspace) as services:
        recent = list_changes(services, eid, query)
    if output is OutputFormat.JSON:
        print_json(asdict(recent))
        return
    if not recent.streams:
        print("no stream declares `changes`: see docs/howto/show-changes.md")
    elif not recent.changes and not recent.unread:
        print(f"no change within {within} before, in {', '.join(recent.streams)}")
    for change in recent.changes:
        print(_format_change(change))
    if recent.omitted:
        print(f"… and {recent.omitted:,} more")
    for entry in recent.unread:
        print(f"{entry.stream}: {entry.reason}")


def _format_change(change: "ListedChange") -> str:
    heading, *details = escape_control(change.sentence).split("; ")
    return "\n    ".join([f"{change.ts:%Y-%m-%d %H:%M:%SZ}  {heading}", *details])


def _format_row(event: StoredEventRow) -> tuple[Any, ...]:
    return event.ts, event.rule, event.attributes, _event_state(event), event.eid


def _event_state(event: StoredEventRow) -> str:
    if event.past:
        return "historical"
    return "settled" if event.settled else "detected"


def _format_contexts(event: "EventDetails") -> Iterator[tuple[str, str]]:
    """Each context and surrounding, one line for each different row."""
    note = "" if event.settled_context else " (provisional)"
    for kind, tables in (("context", event.contexts), ("surrounding", event.surroundings)):
        for name, rows in (tables or {}).items():
            heading = f"{kind} {name}{note}"
            for line in _format_context(rows, event.truncated.get(name)):
                yield heading, line
                heading = ""


def _format_context(rows: Sequence[Mapping[str, Any]], row_count: int | None) -> Iterator[str]:
    """The different rows of a context, most frequent first."""
    counts = Counter(map(_format_context_row, rows))
    for text, count in counts.most_common(_MAX_CONTEXT_ROWS):
        yield f"{text} ×{count}" if count > 1 else text
    if not counts:
        yield "empty"
    if len(counts) > _MAX_CONTEXT_ROWS:
        yield f"… and {len(counts) - _MAX_CONTEXT_ROWS} more"
    if row_count is not None:
        yield f"truncated: {len(rows):,} of {row_count:,} rows are stored"


def _format_context_row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items() if value is not None)
