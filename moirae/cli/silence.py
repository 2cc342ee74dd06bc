"""`moirae silence`: hold back the notifications of alerts."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from archiver.clock import utc_now
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_json,
    print_table,
    to_seconds,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import RemoteTyper, open_services

app = RemoteTyper(
    help="Hold back the notifications of alerts: silences and maintenance windows.",
    no_args_is_help=True,
)
_COLUMNS = ("id", "state", "matchers", "starts", "ends", "windows", "author", "comment")
_MATCHER_HELP = 'Conditions on labels, such as host="a" or team=~"x|y"; all must hold.'


MatchersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="MATCHER…", help=_MATCHER_HELP)
]
AlertOption = Annotated[
    str | None, typer.Option("--alert", help="Alert whose labels are conditions, too.")
]
WindowsOption = Annotated[
    str | None,
    typer.Option(
        "--windows",
        help="Only in these windows: `CRON for DURATION`, or `CRON for DURATION in ZONE`.",
    ),
]


@app.command()
def add(
    matchers: MatchersArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    comment: Annotated[str, typer.Option("--comment", "-c", help="Reason.")] = "",
    duration: Annotated[
        str,
        typer.Option("--duration", "-d", help="Time from now, such as 2h, or START/END in UTC."),
    ] = "1h",
    alert: AlertOption = None,
    windows: WindowsOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Hold back alerts that the matchers select."""
    from moirae.services.operations.silences import SilenceBody, add_silence

    schedule = _parse_windows(windows)
    _find_times(duration)  # refuses an invalid one before anything is opened
    with open_services(workspace) as services:
        starts_at, ends_at = _find_times(duration)  # by the clock of the database
        body = make_query(
            SilenceBody,
            matchers=matchers or [],
            alert=alert,
            starts_at=starts_at,
            ends_at=ends_at,
            comment=comment,
            schedule=schedule,
        )
        silence = add_silence(services, body)
    if output is OutputFormat.JSON:
        print_json(silence)
    else:
        print(silence.id)


@app.command()
def preview(
    matchers: MatchersArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    alert: AlertOption = None,
    windows: WindowsOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show what a silence would hold back now, and would have held back in the last week."""
    from moirae.services.operations.silences import SilenceBody, preview_silence

    body = make_query(
        SilenceBody,
        matchers=matchers or [],
        alert=alert,
        comment="preview",
        schedule=_parse_windows(windows),
    )
    with open_services(workspace) as services:
        result = preview_silence(services, body)
    if output is OutputFormat.JSON:
        print_json(result)
    else:
        print(
            f"holds back {result.firing} alerts that fire now; "
            f"would have held back {result.last_week} of the last seven days"
        )


@app.command()
def query(
    matchers: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE…", help="Only silences with these matchers."),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    expired: Annotated[
        bool, typer.Option("--expired", help="Include silences that have ended.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List silences."""
    from moirae.config.matchers import parse_matchers
    from moirae.errors import UsageError
    from moirae.services.operations.silences import SilenceQuery, list_silences

    try:
        wanted_matchers = {str(m) for text in matchers or () for m in parse_matchers(text)}
    except ValueError as error:
        raise UsageError(str(error)) from error
    with open_services(workspace) as services:
        silences = list_silences(services, make_query(SilenceQuery, expired=expired))
    silences = [silence for silence in silences if wanted_matchers <= set(silence.matchers)]
    if output is OutputFormat.JSON:
        print_json(silences)
    else:
        print_table(_COLUMNS, map(_format_silence, silences), "no silences")


@app.command()
def expire(
    silence: Annotated[
        str, typer.Argument(metavar="ID", help="Silence, or a unique prefix of its ID.")
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """End a silence."""
    from moirae.services.operations.silences import expire_silence

    with open_services(workspace) as services:
        ended = expire_silence(services, silence)
    if output is OutputFormat.JSON:
        print_json(ended)
    else:
        print(f"expired: {ended.id}")


def _find_times(duration: str) -> tuple[datetime, datetime]:
    from moirae.config import parse_duration
    from moirae.errors import UsageError

    start, slash, end = duration.partition("/")
    try:
        if slash:
            return _parse_time(start), _parse_time(end)
        starts_at = utc_now()
        return starts_at, starts_at + parse_duration(duration)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--duration: {error}") from error


def _parse_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _parse_windows(text: str | None) -> dict[str, str] | None:
    from moirae.errors import UsageError

    if text is None:
        return None
    match = re.fullmatch(r"(?P<cron>.+) for (?P<duration>\S+)(?: in (?P<zone>\S+))?", text.strip())
    if match is None:
        raise UsageError(
            f"--windows: {text!r} is not `CRON for DURATION in ZONE`, such as `0 2 * * * for 2h`"
        )
    return {name: value for name, value in match.groupdict().items() if value is not None}


def _format_silence(silence: Any) -> Iterable[Any]:
    windows = ""
    if silence.schedule is not None:
        windows = "{cron} for {duration} ({zone})".format(**silence.schedule)
    times = [to_seconds(silence.starts_at), to_seconds(silence.ends_at)]
    matchers = " ".join(silence.matchers)
    return [
        str(silence.id)[:8],
        silence.state,
        matchers,
        *times,
        windows,
        silence.author,
        silence.comment,
    ]
