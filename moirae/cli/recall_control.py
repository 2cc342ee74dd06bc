"""`moirae cancel`, `finalize`, `accelerate` and `refine`: control recalls that have not ended."""

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_count,
    print_json,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import open_services
from moirae.config import format_duration, parse_duration
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.services import Workspace
    from moirae.services.operations.recalls import Command, CommandBody, CommandEffect, Verb

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
        "--key", help="Idempotency key: a command repeated with the same key has no further effect."
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
        from moirae.services.operations.recalls import CommandBody

        if identifier is None and rule is None and older_than is None:
            raise UsageError(f"{verb}: nothing selected: give an ID, --rule or --older-than")
        age = None
        if older_than is not None:
            age = _parse_age(older_than).total_seconds()
        body = make_query(
            CommandBody, command=verb, id=identifier, rule=rule, older_than=age, key=key
        )
        with open_services(workspace) as services:
            command = execute_command(services, body)
        effect = command.effect
        if output is OutputFormat.JSON:
            result = effect and asdict(effect)
            print_json({"command": verb, "target": command.target, "effect": result})
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


def execute_command(services: "Workspace", body: "CommandBody") -> "Command":
    """Submit a command and wait for its effect, unless no recall process executes it in time."""
    from moirae.services.operations.recalls import show_command, submit

    command = submit(services, body)
    deadline = time.monotonic() + _COMMAND_TIMEOUT
    while command.effect is None and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
        command = show_command(services, command.number)
    return command


def _parse_age(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from error


def _describe_effect(verb: "Verb", effect: "CommandEffect") -> str:
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
    from recall.ledger.commands import ACCELERATION_FACTOR

    if verb == "accelerate":
        return f"accelerated, tickets times {ACCELERATION_FACTOR}"
    return "resumed"


def _format_estimate(seconds: float | None) -> str:
    if seconds is None:
        return "unknown time"
    if seconds < 1:
        return "less than 1s"
    return f"about {format_duration(timedelta(seconds=round(seconds)))}"
