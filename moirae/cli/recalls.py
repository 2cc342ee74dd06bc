"""`moirae similar` and `recalls`: answers about events, their revisions, progress of recalls."""

import sys
import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

import sql
from moirae.cli.answers import print_answers, render_answers
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    EventArgument,
    LimitOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    check_choices,
    count_omitted,
    escape_control,
    format_cell,
    format_time,
    make_console,
    open_workspace,
    print_json,
    print_json_line,
    print_omitted_count,
    print_table,
)
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.inspect import RecallAnswer

app = typer.Typer(help="Inspect recalls and their progress.", no_args_is_help=True)

_STATES = ("waiting", "running", "suspended", "done", "finalized", "cancelled", "failed")
_WATCH_INTERVAL = 0.3  # seconds between two updates of `watch`
_WATCH_WIDTH = 160  # characters of a line when standard output is not a terminal
_COLUMNS = (
    "requested",
    "rule",
    "recall",
    "state",
    "chunks",
    "revision",
    "tickets",
    "results",
    "seconds",
    "id",
    "event",
)

RecallStateOption = Annotated[
    list[str] | None,
    typer.Option("--state", help=f"Show only recalls in this state: {', '.join(_STATES)}."),
]


def similar(
    eid: EventArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the past events most similar to an event, with shared context and resolutions."""
    from moirae.alerts import find_event
    from moirae.inspect import load_answers

    with open_workspace(workspace) as (_, connection):
        event_id = find_event(connection, eid)
        answers = load_answers(connection, event_id)
    answers = [answer for answer in answers if answer.kind == "similar"]
    if not answers:
        raise UsageError(
            f"event {event_id} has no similarity recall: its rule declares none, or its alert has "
            "not fired"
        )
    if output is OutputFormat.JSON:
        print_json(list(map(_answer_to_json, answers)))
    else:
        print_answers(answers)


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    eid: Annotated[
        str | None,
        typer.Option("--event", metavar="ID", help="Show only recalls of this event."),
    ] = None,
    rule: RuleOption = None,
    state: RecallStateOption = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the newest recalls with state and progress."""
    from moirae.alerts import find_event

    check_choices("state", state or (), _STATES)
    with open_workspace(workspace) as (_, connection):
        check_rule(connection, rule)
        event_id = None
        if eid is not None:
            event_id = find_event(connection, eid)
        gateway = sql.TaskGateway(connection)
        tasks = gateway.list_newest(eid=event_id, rule=rule, states=state, limit=limit)
        count = partial(gateway.count, eid=event_id, rule=rule, states=state)
        omitted = count_omitted(tasks, limit, count)
    if output is OutputFormat.JSON:
        print_json(list(map(_task_to_json, tasks)))
    else:
        print_table(_COLUMNS, map(_format_row, tasks), "no recalls")
    print_omitted_count(omitted, len(tasks), output)


@app.command()
def show(
    eid: EventArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the last answers of all recalls of an event."""
    from moirae.alerts import find_event
    from moirae.inspect import load_answers

    with open_workspace(workspace) as (_, connection):
        answers = load_answers(connection, find_event(connection, eid))
    if output is OutputFormat.JSON:
        print_json(list(map(_answer_to_json, answers)))
    elif answers:
        print_answers(answers)
    else:
        print("this event has no recalls")


@app.command()
def watch(eid: EventArgument, workspace: WorkspaceOption = DEFAULT_WORKSPACE) -> None:
    """Show the answers about an event and update them until all are final."""
    from moirae.alerts import find_event
    from moirae.inspect import load_answers

    console = make_console(_WATCH_WIDTH)
    with open_workspace(workspace) as (_, connection):
        event_id = find_event(connection, eid)
        with Live(console=console, refresh_per_second=4, transient=False) as screen:
            while True:
                answers = load_answers(connection, event_id)
                screen.update(render_answers(answers))
                if answers and not any(map(_is_open, answers)):
                    return
                time.sleep(_WATCH_INTERVAL)


@app.command()
def follow(
    recall: Annotated[
        str,
        typer.Argument(
            metavar="RECALL",
            help="Recall or stage: NAME, ALERT/NAME or GROUP/ALERT/NAME.",
        ),
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    after: Annotated[
        int,
        typer.Option("--after", min=0, help="Number of the revision to continue behind."),
    ] = 0,
    until_now: Annotated[
        bool, typer.Option("--until-now", help="End behind the last present revision.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print the row revisions of a recall or stage, and new ones as they are stored."""
    from recall.errors import UnknownStream
    from recall.ledger import read_revisions

    with open_workspace(workspace) as (_, connection):
        last = after
        while True:
            try:
                batch = read_revisions(connection, recall, last)
            except UnknownStream as error:
                raise UsageError(escape_control(str(error))) from error
            for revision in batch.revisions:
                _print_revision(revision, output)
            sys.stdout.flush()
            if batch.last == last:
                if until_now:
                    return
                time.sleep(_WATCH_INTERVAL)
            last = batch.last


def _print_revision(revision: sql.RowRevisionRow, output: OutputFormat) -> None:
    """A revision in a line."""
    if output is OutputFormat.JSON:
        print_json_line(asdict(revision))
        return
    row = revision.old_row if revision.op == "delete" else revision.row
    parts = [str(revision.seq), format_time(revision.ts), str(revision.eid), revision.op]
    if row is not None:
        parts.append(escape_control(format_cell(row)))
    print("  ".join(parts))


def check_rule(connection: sql.Connection, rule: str | None) -> None:
    """Raise `UsageError` for a rule that is not deployed and has no recalls."""
    if rule is None:
        return
    if not sql.TaskGateway(connection).rule_exists(rule):
        raise UsageError(f"no rule {escape_control(rule)!r} is deployed or has recalls")


def _is_open(answer: "RecallAnswer") -> bool:
    return answer.state in ("waiting", "running")


def _answer_to_json(answer: "RecallAnswer") -> dict[str, Any]:
    fields = dict(vars(answer))
    if answer.hits is not None:
        fields["hits"] = list(map(vars, answer.hits))
    return fields


def _task_to_json(task: sql.TaskSummaryRow) -> dict[str, Any]:
    fields = asdict(task)
    fields["chunks"] = fields.pop("pieces")
    return fields


def _format_row(task: sql.TaskSummaryRow) -> tuple[Any, ...]:
    chunks = "?" if task.pieces is None else task.pieces
    return (
        task.created_at,
        task.rule,
        task.recall,
        _format_state(task),
        f"{task.read}/{chunks}",
        task.revision,
        task.tickets,
        task.results,
        f"{task.seconds:.2f}",
        task.id,
        task.eid,
    )


def _format_state(task: sql.TaskSummaryRow) -> str:
    if task.state == "suspended" and task.deadline is not None:
        return f"suspended until {format_time(task.deadline.replace(microsecond=0))}"
    if task.state == "waiting" and task.revision:
        return "deferred until other recalls have a first answer"
    return str(task.state)
