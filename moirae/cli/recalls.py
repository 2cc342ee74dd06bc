"""`moirae similar` and `recalls`: answers about events, their revisions, progress of recalls."""

import sys
import textwrap
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

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
    escape_control,
    format_cell,
    format_time,
    make_console,
    print_json,
    print_json_line,
    print_omitted_count,
    print_table,
    to_seconds,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services
from sql.recalls import TaskSummaryRow
from sql.stages import RowRevisionRow

if TYPE_CHECKING:
    from moirae.inspect.past_events import RecallAnswer

app = RemoteTyper(help="Inspect recalls and their progress.", no_args_is_help=True)

_STATES = ("waiting", "running", "suspended", "done", "finalized", "cancelled", "failed")
_WATCH_INTERVAL = 0.3  # seconds between two updates of `watch`
_REVISIONS_PER_REQUEST = 1_000
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
    "error",
)
_MAX_ERROR_LENGTH = 120  # characters of a cell

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
    from moirae.services.operations.events import show_similar

    with open_services(workspace) as services:
        answers = show_similar(services, eid)
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
    from moirae.services.operations.recalls import RecallQuery, list_recalls

    check_choices("state", state or (), _STATES)
    query = make_query(RecallQuery, event=eid, rule=rule, state=state)
    with open_services(workspace) as services:
        tasks, omitted = collect_rows(services, list_recalls, query, "recalls", limit)
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
    from moirae.services.operations.events import show_answers

    with open_services(workspace) as services:
        answers = show_answers(services, eid)
    if output is OutputFormat.JSON:
        print_json(list(map(_answer_to_json, answers)))
    elif answers:
        print_answers(answers)
    else:
        print("this event has no recalls")


@app.command()
def watch(eid: EventArgument, workspace: WorkspaceOption = DEFAULT_WORKSPACE) -> None:
    """Show the answers about an event and update them until all are final."""
    from moirae.services.operations.events import show_answers

    console = make_console(_WATCH_WIDTH)
    with open_services(workspace) as services:
        answers = show_answers(services, eid)
        with Live(console=console, refresh_per_second=4, transient=False) as screen:
            while True:
                screen.update(render_answers(answers))
                if answers and not any(map(_is_open, answers)):
                    return
                time.sleep(_WATCH_INTERVAL)
                answers = show_answers(services, eid)


@app.command()
def follow(
    recall: Annotated[
        str,
        typer.Argument(
            metavar="RECALL",
            help="Recall or stage: NAME, ALERT/NAME, GROUP/ALERT/NAME, or its key `stream`.",
        ),
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    after: Annotated[
        int,
        typer.Option("--after", min=0, help="Print only revisions after this number."),
    ] = 0,
    until_now: Annotated[
        bool,
        typer.Option(
            "--until-now", help="Exit after the newest revision, instead of waiting for new ones."
        ),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print the row revisions of a recall or stage, and new ones as they are stored.

    Each line has the number of the revision, time and ID of the event, operation, and row. No
    revision of an event follows its `boundary`.
    """
    from moirae.services.operations.recalls import RevisionQuery, list_row_revisions

    with open_services(workspace) as services:
        last = after
        while True:
            query = RevisionQuery(after=last, limit=_REVISIONS_PER_REQUEST)
            page = list_row_revisions(services, recall, query)
            recall = f"{page.rule}/{page.name}"
            for revision in page.revisions:
                _print_revision(revision, output)
            sys.stdout.flush()
            if page.last == last:
                if until_now:
                    return
                time.sleep(_WATCH_INTERVAL)
            last = page.last


def _print_revision(revision: RowRevisionRow, output: OutputFormat) -> None:
    """A revision in a line."""
    if output is OutputFormat.JSON:
        print_json_line(asdict(revision))
        return
    row = revision.old_row if revision.op == "delete" else revision.row
    parts = [f"{revision.seq:>6}", format_time(revision.ts), str(revision.eid), revision.op]
    if row is not None:
        values = {name: _round(value) for name, value in row.items()}
        parts.append(escape_control(format_cell(values)))
    print("  ".join(parts))


def _round(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _is_open(answer: "RecallAnswer") -> bool:
    return answer.state in ("waiting", "running")


def _answer_to_json(answer: "RecallAnswer") -> dict[str, Any]:
    fields = dict(vars(answer))
    if answer.hits is not None:
        fields["hits"] = list(map(vars, answer.hits))
    return fields


def _task_to_json(task: TaskSummaryRow) -> dict[str, Any]:
    fields = asdict(task)
    fields["chunks"] = fields.pop("pieces")
    return fields


def _format_row(task: TaskSummaryRow) -> tuple[Any, ...]:
    chunks = "?" if task.pieces is None else task.pieces
    return (
        to_seconds(task.created_at),
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
        None if task.error is None else textwrap.shorten(task.error, _MAX_ERROR_LENGTH),
    )


def _format_state(task: TaskSummaryRow) -> str:
    if task.state == "suspended" and task.deadline is not None:
        return f"suspended until {format_time(to_seconds(task.deadline))}"
    if task.state == "waiting" and task.retry_at is not None:
        return f"waiting until {format_time(to_seconds(task.retry_at))}"
    if task.state == "waiting" and task.revision:
        return "deferred until other recalls have a first answer"
    return str(task.state)
