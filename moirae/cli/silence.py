"""`moirae silence`: hold back the notifications of alerts."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import typer

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


@app.command()
def add(
    matchers: Annotated[
        list[str] | None, typer.Argument(metavar="MATCHER…", help=_MATCHER_HELP)
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    comment: Annotated[str, typer.Option("--comment", "-c", help="Reason.")] = "",
    alert: Annotated[
        str | None, typer.Option("--alert", help="Alert whose labels are conditions, too.")
    ] = None,
    duration: Annotated[
        str, typer.Option("--duration", "-d", help="Time until the end, such as 2h.")
    ] = "1h",
    start: Annotated[datetime | None, typer.Option("--start", help="Start, in UTC.")] = None,
    cron: Annotated[
        str | None,
        typer.Option("--cron", help="Hold back only in windows that start at these times."),
    ] = None,
    window: Annotated[str, typer.Option("--window", help="Length of a window.")] = "1h",
    zone: Annotated[str, typer.Option("--zone", help="Time zone of --cron.")] = "UTC",
    author: Annotated[str | None, typer.Option("--author", help="Name of the author.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show what it would hold back, now and last week."),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Hold back alerts that the matchers select."""
    from moirae.services.operations.silences import (
        SilenceBody,
        SilenceSchedule,
        add_silence,
        preview_silence,
    )

    starts_at, ends_at = _find_times(start, duration)
    schedule = None
    if cron is not None:
        schedule = make_query(SilenceSchedule, cron=cron, duration=window, zone=zone)
    body = make_query(
        SilenceBody,
        matchers=matchers or [],
        alert=alert,
        starts_at=starts_at,
        ends_at=ends_at,
        comment=comment,
        schedule=schedule,
    )
    with open_services(workspace) as services:
        if dry_run:
            preview = preview_silence(services, body)
            if output is OutputFormat.JSON:
                print_json(preview)
            else:
                print(
                    f"holds back {preview.firing} alerts that fire now; "
                    f"would have held back {preview.last_week} of the last seven days"
                )
            return
        silence = add_silence(services.with_author(author), body)
    if output is OutputFormat.JSON:
        print_json(silence)
    else:
        print(silence.id)


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


def _find_times(start: datetime | None, duration: str) -> tuple[datetime, datetime]:
    from datetime import UTC

    from moirae.config import parse_duration
    from moirae.errors import UsageError

    starts_at = datetime.now(UTC) if start is None else start.replace(tzinfo=UTC)
    try:
        return starts_at, starts_at + parse_duration(duration)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--duration: {error}") from error


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
