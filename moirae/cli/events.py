"""`moirae events`: list and inspect events."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import UUID

import typer

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    EventArgument,
    LimitOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    count_omitted,
    open_workspace,
    print_json,
    print_omitted_count,
    print_properties,
    print_table,
)
from moirae.errors import UsageError

app = typer.Typer(help="List and inspect events.", no_args_is_help=True)

_MAX_CONTEXT_ROWS = 20  # different rows of a context that are shown


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rule: RuleOption = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the newest events."""
    with open_workspace(workspace) as (_, connection):
        gateway = sql.EventGateway(connection)
        events = gateway.list_newest(rule=rule, limit=limit)
        omitted = count_omitted(events, limit, partial(gateway.count_newest, rule=rule))
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
    from moirae.alerts import find_event

    with open_workspace(workspace) as (_, connection):
        event_id = find_event(connection, eid)
        event = _fetch_event(connection, event_id)
        gateway = sql.ContextGateway(connection)
        # For the version of the rule that detected the event.
        context_key = event["rule"], event["version"], event_id
        context = gateway.get(*context_key)
        row_counts = gateway.get_row_counts(*context_key)
    if output is OutputFormat.JSON:
        if context is not None:
            event["contexts"] = context.contexts
            event["surroundings"] = context.surroundings
        print_json({**event, "truncated": row_counts})
        return
    for name, value in event.pop("attributes").items():
        event[f"event.{name}"] = value
    lines = list(event.items())
    if context is not None:
        lines += _format_contexts(context, row_counts)
    print_properties(lines)


def _fetch_event(connection: sql.Connection, eid: UUID) -> dict[str, Any]:
    """The event as the newest version of its rule has detected it. Raises `UsageError`."""
    event = sql.EventGateway(connection).get(eid)
    if event is None:
        raise UsageError(
            f"event {eid} has been deleted, only its recalls remain: "
            f"see `moirae recalls show {eid}`"
        )
    return asdict(event)


def _format_row(event: sql.StoredEventRow) -> tuple[Any, ...]:
    return event.ts, event.rule, event.attributes, _event_state(event), event.eid


def _event_state(event: sql.StoredEventRow) -> str:
    if event.past:
        return "historical"
    return "settled" if event.settled else "detected"


def _format_contexts(
    context: sql.ContextRow, row_counts: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Each context and surrounding, one line for each different row.

    `row_counts`: number of rows before truncation, by name of a truncated context.
    """
    note = "" if context.settled else " (provisional)"
    for kind, tables in (("context", context.contexts), ("surrounding", context.surroundings)):
        for name, rows in tables.items():
            heading = f"{kind} {name}{note}"
            for line in _format_context(rows, row_counts.get(name)):
                yield heading, line
                heading = ""


def _format_context(rows: list[dict[str, Any]], row_count: int | None) -> Iterator[str]:
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
