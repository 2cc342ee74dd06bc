"""`moirae import prometheus`: bring samples of the past into the streams of remote write."""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from archiver.clock import utc_now
from moirae.cli.alerts import parse_moment
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    format_count,
    format_time,
    open_workspace,
    parse_assignments,
    print_json,
    print_warnings,
)
from moirae.config import load_settings_from_environment
from moirae.errors import UsageError
from moirae.runtime import open_progress_bar

if TYPE_CHECKING:
    from moirae.imports import Credentials, ImportProgress, PrometheusApi

app = typer.Typer(
    help="Bring data of the past from other systems into streams.", no_args_is_help=True
)
_LINE_INTERVAL = 10.0  # seconds between lines where no bar can be drawn
_MAX_SECRET_BYTES = 10_000


@app.callback()
def _group() -> None:
    """Each kind of system is a command of its own."""


@dataclass(frozen=True)
class PrometheusOptions:
    """Which samples are imported, and how Prometheus is reached."""

    start: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Begin: a time, or a duration before now."),
    ]
    match: Annotated[
        list[str] | None,
        typer.Option(
            "--match",
            metavar="SELECTOR",
            help="StoredSeries to read, such as node_load1; repeatable. Default: `match` of the streams.",
        ),
    ] = None
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="End. Default: now.")] = (
        None
    )
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME=VALUE",
            help="External label that remote write adds; repeatable. Default: those of its "
            "configuration.",
        ),
    ] = None
    credentials: Annotated[
        Path | None,
        typer.Option("--credentials", metavar="FILE", help="File of a token, or of a password."),
    ] = None
    username: Annotated[
        str | None, typer.Option("--username", help="User of the password in --credentials.")
    ] = None


@app.command("prometheus")
@expand_option_groups
def import_prometheus(
    url: Annotated[str, typer.Argument(metavar="URL", help="Such as http://prometheus:9090.")],
    options: PrometheusOptions,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Import samples that Prometheus has stored, as remote write would have sent them.

    An import that was interrupted goes on where it was when the same command runs again. Samples
    that remote write has sent, or will send, are archived once.
    """
    from moirae.imports import PrometheusApi, PrometheusImport, find_targets

    settings = load_settings_from_environment(workspace)
    target = find_targets(settings, options.match or ())
    start, end = _find_range(options)
    with PrometheusApi(url, _read_login(options)) as api:
        labels = _find_external_labels(api, options)
        importing = PrometheusImport(settings, target, api, labels)
        covered = importing.find_covered(start)
        if covered.reached > start:
            print(f"moirae: goes on at {_format(covered.reached)}", file=sys.stderr)
        progress = None
        with open_progress_bar(Console(stderr=True)) as bar:
            task = bar.add_task("import", total=max(0, end - covered.reached))
            printed_at = utc_now()
            for progress in importing.run(covered, end, lambda: _is_archiving(workspace)):
                bar.update(task, completed=progress.reached - covered.reached)
                now = utc_now()
                if bar.disable and (now - printed_at).total_seconds() > _LINE_INTERVAL:
                    printed_at = now
                    rows = format_count(progress.rows.total(), "row")
                    print(f"moirae: {rows} up to {_format(progress.reached)}", file=sys.stderr)
    _print_result(progress, output)


def _print_result(progress: "ImportProgress | None", output: OutputFormat) -> None:
    rows = {} if progress is None else dict(progress.rows)
    skipped = {} if progress is None else dict(progress.skipped)
    if output is OutputFormat.JSON:
        reached = None if progress is None else _format(progress.reached)
        print_json({"rows": rows, "skipped": skipped, "reached": reached})
        return
    if progress is None:
        print("nothing to import: all of this time was imported before")
        return
    for stream, count in rows.items():
        print(f"queued for {stream}: {format_count(count, 'row')}")
    if not rows:
        print("no samples found")
    if skipped:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
        print(f"not stored: {counts}")


def _find_range(options: PrometheusOptions) -> tuple[int, int]:
    """In milliseconds. Raises `UsageError`."""
    start = parse_moment("--from", options.start)
    end = parse_moment("--to", options.end) or utc_now()
    assert start is not None
    if not 0 <= start.timestamp() < end.timestamp():
        raise UsageError("--from must be before --to, and after 1970")
    return int(start.timestamp() * 1000), int(end.timestamp() * 1000)


def _read_login(options: PrometheusOptions) -> "Credentials | None":
    from moirae.imports import Credentials

    if options.credentials is None:
        if options.username is not None:
            raise UsageError("--username needs --credentials: the file of the password")
        return None
    try:
        secret = options.credentials.read_bytes()[: _MAX_SECRET_BYTES + 1].decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{options.credentials}: cannot be read") from error
    if not secret or len(secret) > _MAX_SECRET_BYTES:
        raise UsageError(f"{options.credentials}: holds no token or password")
    return Credentials(secret, options.username)


def _find_external_labels(api: "PrometheusApi", options: PrometheusOptions) -> dict[str, str]:
    """The labels that remote write adds to series which do not have them."""
    if options.label is not None:
        return parse_assignments("--label", options.label, "cluster=a")
    config = api.read_remote_write_config()
    if config is None:
        print_warnings(
            [f"{api.url} does not show its configuration: --label names its external labels"]
        )
        return {}
    if config.changes_labels:
        print_warnings(
            [
                "write_relabel_configs change labels: samples that remote write sends may have other "
                "labels than imported ones, and then are other rows"
            ]
        )
    return dict(config.external_labels)


def _is_archiving(workspace: Path) -> bool:
    """Whether a live process takes what waits."""
    from moirae.inspect import is_live_available

    with open_workspace(workspace) as (_, connection):
        return is_live_available(connection)


def _format(milliseconds: int) -> str:
    return format_time(datetime.fromtimestamp(milliseconds // 1000, UTC))
