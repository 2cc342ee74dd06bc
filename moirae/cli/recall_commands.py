"""`cancel`, `finalize`, `accelerate`, `refine`: what people ask of recalls that go on."""

import getpass
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from psycopg import Connection

from moirae.alerts import find_event_or_recall
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
)
from moirae.cli.recalls import check_rule
from moirae.config import format_duration, parse_duration
from moirae.errors import UsageError
from recall.errors import CommandKeyConflict
from recall.ledger import ACCELERATION_FACTOR, Effect, Target, Verb, fetch_effect, submit_command

# Seconds that a command waits to be carried out.
_COMMAND_TIMEOUT = 15.0

RecallArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]", help="The id of an event, an alert or a recall, or how it begins."
    ),
]
RecallRuleOption = Annotated[
    str | None, typer.Option("--rule", help="Recalls of this rule, with or without its group.")
]
OlderThanOption = Annotated[
    str | None,
    typer.Option("--older-than", metavar="SPAN", help="Recalls asked for so long ago: 10m."),
]
CommandKeyOption = Annotated[
    str | None,
    typer.Option("--key", help="Names the command: asked again with it, nothing is done twice."),
]


def _make_command(verb: Verb, words: str) -> Callable[..., None]:
    """One of the four, with its help: all take the same."""

    def run(
        which: RecallArgument = None,
        workspace: WorkspaceOption = DEFAULT_WORKSPACE,
        rule: RecallRuleOption = None,
        older_than: OlderThanOption = None,
        key: CommandKeyOption = None,
        output: OutputOption = OutputFormat.TABLE,
    ) -> None:
        _run_command(verb, which, workspace, rule, older_than, key, output)

    run.__doc__ = words
    return run


COMMANDS: dict[str, Callable[..., None]] = {
    "cancel": _make_command("cancel", "End recalls and discard their answers."),
    "finalize": _make_command("finalize", "End recalls and keep the answers they have."),
    "accelerate": _make_command(
        "accelerate", "Give recalls more tickets: they run more often than others."
    ),
    "refine": _make_command("refine", "Let recalls that wait for feedback go on."),
}


def _run_command(
    verb: Verb,
    which: str | None,
    workspace: Path,
    rule: str | None,
    older: str | None,
    key: str | None,
    output: OutputFormat,
) -> None:
    if which is None and rule is None and older is None:
        raise UsageError(f"{verb} what? Give an id, --rule or --older-than")
    span = None if older is None else _parse_age(older)
    with open_workspace(workspace) as (_, connection):
        check_rule(connection, rule)
        target = _target(connection, which, rule)
        seconds = None if span is None else span.total_seconds()
        try:
            number = submit_command(
                connection, key or str(uuid4()), verb, target, getpass.getuser(), seconds
            )
        except CommandKeyConflict as error:
            raise UsageError(str(error)) from error
        done, deadline = fetch_effect(connection, number), time.monotonic() + _COMMAND_TIMEOUT
        while done is None and time.monotonic() < deadline:
            time.sleep(0.05)
            done = fetch_effect(connection, number)
    if output is OutputFormat.JSON:
        print_json(
            {
                "command": verb,
                "target": target.to_json(),
                "effect": None if done is None else asdict(done),
            }
        )
    elif done is None:
        print(f"{verb} is noted; it will be carried out when the recall process runs")
    else:
        print(_describe_effect(verb, done))


def _parse_age(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from error


def _target(connection: Connection[Any], which: str | None, rule: str | None) -> Target:
    """The recalls of an event, or one recall, by an ID or the beginning of one; or those of a rule."""
    if which is None:
        return Target(rule=rule)
    match = find_event_or_recall(connection, which)
    if match.kind == "event":
        return Target(eid=str(match.id), rule=rule)
    return Target(task=str(match.id), rule=rule)


def _describe_effect(verb: Verb, done: Effect) -> str:
    """What a command has done, in words."""
    if not done.recalls:
        return "no such recall is going on"
    recalls = "1 recall" if done.recalls == 1 else f"{done.recalls:,} recalls"
    chunks = "1 chunk" if done.chunks_left == 1 else f"{done.chunks_left:,} chunks"
    before, after = _format_seconds(done.seconds_before), _format_seconds(done.seconds_after)
    if verb == "cancel":
        return f"{recalls} ended, their answers are discarded; {chunks} need not be read ({before} of waiting)"
    if verb == "finalize":
        none = f" ({done.unanswered:,} had none)" if done.unanswered else ""
        return f"{recalls} ended, their last answers are kept{none}; {chunks} need not be read ({before} of waiting)"
    change = (
        f"{ACCELERATION_FACTOR} times the tickets" if verb == "accelerate" else "leave to go on"
    )
    return f"{recalls} given {change}: {chunks} left, to be read in {after} (before: {before})"


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return "no known time"
    return (
        "less than 1s"
        if seconds < 1
        else f"about {format_duration(timedelta(seconds=round(seconds)))}"
    )
