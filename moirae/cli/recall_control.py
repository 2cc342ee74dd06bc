"""`moirae cancel`, `finalize`, `accelerate` and `refine`: control recalls that have not ended."""

import getpass
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_count,
    open_workspace,
    print_json,
)
from moirae.cli.recalls import check_rule
from moirae.config import format_duration, parse_duration
from moirae.errors import UsageError

if TYPE_CHECKING:
    from recall.ledger import Effect, Target, Verb

_COMMAND_TIMEOUT = 15.0  # seconds to wait for the effect of a command
_POLL_INTERVAL = 0.05  # seconds

IdArgument = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="Event, alert or recall ID, or a unique prefix of it."),
]
RecallRuleOption = Annotated[
    str | None,
    typer.Option("--rule", help="Select recalls of this rule, named with or without its group."),
]
OlderThanOption = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="DURATION",
        help="Select recalls requested at least this long ago, such as 10m.",
    ),
]
CommandKeyOption = Annotated[
    str | None,
    typer.Option(
        "--key", help="Idempotency key: a command with a key that was used has no further effect."
    ),
]


def _make_subcommand(verb: "Verb", description: str) -> Callable[..., None]:
    """The function of a subcommand. All verbs take the same arguments and options."""

    def run(
        identifier: IdArgument = None,
        workspace: WorkspaceOption = DEFAULT_WORKSPACE,
        rule: RecallRuleOption = None,
        older_than: OlderThanOption = None,
        key: CommandKeyOption = None,
        output: OutputOption = OutputFormat.TABLE,
    ) -> None:
        if identifier is None and rule is None and older_than is None:
            raise UsageError(f"{verb}: nothing selected: give an ID, --rule or --older-than")
        age = None
        if older_than is not None:
            age = _parse_age(older_than)
        with open_workspace(workspace) as (_, connection):
            check_rule(connection, rule)
            target = _find_target(connection, identifier, rule)
            effect = _execute(connection, verb, target, key=key or str(uuid4()), age=age)
        if output is OutputFormat.JSON:
            result = effect and asdict(effect)
            print_json({"command": verb, "target": target.to_json(), "effect": result})
        elif effect is None:
            print("Queued: takes effect once a recall process runs.")
        else:
            print(_describe_effect(verb, effect))

    run.__doc__ = description
    return run


COMMANDS: dict[str, Callable[..., None]] = {
    "cancel": _make_subcommand("cancel", "End recalls and discard their answers."),
    "finalize": _make_subcommand("finalize", "End recalls and keep their last answers."),
    "accelerate": _make_subcommand(
        "accelerate", "Give recalls more tickets, so that they are scheduled more often."
    ),
    "refine": _make_subcommand("refine", "Resume recalls that are suspended for feedback."),
}


def _execute(
    connection: sql.Connection, verb: "Verb", target: "Target", *, key: str, age: timedelta | None
) -> "Effect | None":
    """Submit a command and wait for its effect; None if no recall process executes it in time."""
    from recall.errors import CommandKeyConflict
    from recall.ledger import fetch_effect, submit_command

    seconds = None if age is None else age.total_seconds()
    try:
        command = submit_command(connection, key, verb, target, getpass.getuser(), seconds)
    except CommandKeyConflict as error:
        raise UsageError(str(error)) from error
    deadline = time.monotonic() + _COMMAND_TIMEOUT
    effect = fetch_effect(connection, command)
    while effect is None and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
        effect = fetch_effect(connection, command)
    return effect


def _parse_age(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from error


def _find_target(connection: sql.Connection, identifier: str | None, rule: str | None) -> "Target":
    """The recalls of an event, or one recall, by a prefix of an ID; else those of a rule."""
    from moirae.alerts import find_event_or_recall
    from recall.ledger import Target

    if identifier is None:
        return Target(rule=rule)
    match = find_event_or_recall(connection, identifier)
    if match.kind == "event":
        return Target(eid=str(match.id), rule=rule)
    return Target(task=str(match.id), rule=rule)


def _describe_effect(verb: "Verb", effect: "Effect") -> str:
    """The effect of a command in a line."""
    if not effect.recalls:
        return "no matching recall is open"
    recalls = format_count(effect.recalls, "recall")
    chunks = format_count(effect.chunks_left, "chunk")
    before = _format_estimate(effect.seconds_before)
    if verb == "cancel":
        return f"{recalls} cancelled, answers discarded; {chunks} not read ({before} saved)"
    if verb == "finalize":
        answers = "last answers kept"
        if effect.unanswered:
            answers += f" ({effect.unanswered:,} had none)"
        return f"{recalls} finalized, {answers}; {chunks} not read ({before} saved)"
    return (
        f"{recalls} {_describe_change(verb)}: {chunks} left, "
        f"finished in {_format_estimate(effect.seconds_after)} (before: {before})"
    )


def _describe_change(verb: "Verb") -> str:
    from recall.ledger import ACCELERATION_FACTOR

    if verb == "accelerate":
        return f"accelerated, tickets times {ACCELERATION_FACTOR}"
    return "resumed"


def _format_estimate(seconds: float | None) -> str:
    if seconds is None:
        return "unknown time"
    if seconds < 1:
        return "less than 1s"
    return f"about {format_duration(timedelta(seconds=round(seconds)))}"
