"""`moirae recalls repeat`: compute answers again from the inputs stored with them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_json,
    print_table,
)
from moirae.cli.remote import open_services

if TYPE_CHECKING:
    from moirae.services.operations.recalls import RepeatedAnswer

_RESULT_LABELS = {True: "the same", False: "DIFFERENT", None: "inputs expired"}
_COLUMNS = ("recall", "revision", "result", "rows", "rule version", "inputs", "reason")
_EXIT_DIFFERENT = 1
_EXIT_EXPIRED = 3

ReplayArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Event, alert or recall ID, or a unique prefix of it.")
]


def repeat(
    identifier: ReplayArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Compute the last answers about an event again and compare them.

    Exit code 1 if an answer differs, 3 if inputs of an answer have expired.
    """
    from moirae.services.operations.recalls import repeat_answers

    with open_services(workspace) as services:
        answers = repeat_answers(services, identifier)
    if output is OutputFormat.JSON:
        print_json(list(map(vars, answers)))
    else:
        print_table(_COLUMNS, map(_format_row, answers), "")
    if any(answer.equal is False for answer in answers):
        raise typer.Exit(_EXIT_DIFFERENT)
    if any(answer.equal is None for answer in answers):
        raise typer.Exit(_EXIT_EXPIRED)


def _format_row(answer: "RepeatedAnswer") -> tuple[Any, ...]:
    inputs = ", ".join(f"{stream} at {last:,}" for stream, (_, last) in answer.appends.items())
    if answer.corpus is not None:
        inputs = f"corpus {answer.corpus:,}"
    return (
        answer.recall,
        answer.revision,
        _RESULT_LABELS[answer.equal],
        None if answer.equal is None else len(answer.answer),
        answer.version,
        inputs,
        answer.why or "",
    )
