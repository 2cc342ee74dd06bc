"""`moirae status`: problems of a workspace, and counts of what it has processed."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_size,
    format_time,
    get_first_line,
    print_json,
    print_table,
    print_warnings,
    to_seconds,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import open_services, uses_server
from moirae.config import format_duration, load_settings_from_environment
from moirae.errors import MoiraeError, Unreachable
from moirae.runtime import keep_exit_code
from moirae.runtime.storage import measure_disk_space

if TYPE_CHECKING:
    from moirae.services.operations.system import WorkspaceStatus

_OVERLOAD_AGE = 10.0  # seconds that the oldest queued recall waits

_MAX_LOSING_RULES = 5  # rules with lost verdicts that are named
_STREAM_COLUMNS = ("stream", "read", "archived", "late", "duplicates", "dead letters", "newest")
_PROCESS_COLUMNS = ("process", "pid", "state", "alive", "started", "error")


def status(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    process: Annotated[
        str | None,
        typer.Option(
            "--process",
            metavar="NAME",
            help="Show only this process: up, live, recall or server. Exit code 0 if it runs.",
        ),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the state of the workspace. Exit code 0 if it is healthy, 1 if there is a problem."""
    from moirae.inspect import assess_health

    if process is not None:
        _probe(workspace, process, output)
    report = _collect(workspace)
    print_warnings(report["warnings"])
    problems = report["problems"]
    exit_code = 1 if problems else 0
    keep_exit_code(exit_code)
    if output is OutputFormat.JSON:
        print_json(report)
    else:
        for problem in problems:
            print(f"PROBLEM: {problem}")
        if not problems:
            print(f"OK: {assess_health(report)[1]}")
        _print_report(report)
    raise typer.Exit(exit_code)


def _probe(workspace: Path, name: str, output: OutputFormat) -> None:
    """Print the state of one process and exit: the health check of a container."""
    from moirae.services.operations.system import show_process

    with open_services(workspace) as services:
        process = show_process(services, name)
    if output is OutputFormat.JSON:
        print_json(process)
    elif process["alive"]:
        print(f"OK: {name} process {process['state']}")
    else:
        reason = process["error"] or f"state {process['state']}, no heartbeat"
        print(f"PROBLEM: the {name} process is not running: {reason}")
    raise typer.Exit(0 if process["alive"] else 1)


def _collect(workspace: Path) -> "WorkspaceStatus":
    from moirae.services.operations.system import StatusQuery, show_status

    try:
        with open_services(workspace) as services:
            return show_status(services, make_query(StatusQuery))
    except MoiraeError as error:
        if uses_server():
            raise
        # A database that does not start because its disk is full does not say so itself.
        disks = measure_disk_space(load_settings_from_environment(workspace))
        disk_problems = [disk.describe_problem() for disk in disks if disk.full]
        kind = Unreachable if isinstance(error, Unreachable) else MoiraeError
        raise kind("\n".join([str(error), *disk_problems])) from error


def _print_report(report: Mapping[str, Any]) -> None:
    print()
    streams = starmap(_format_stream, report["streams"].items())
    print_table(_STREAM_COLUMNS, streams, "no stream has been read")
    print()
    for line in _summarize(report):
        print(line)
    for unread in report["unread_input"]:
        print(_format_unread(unread))
    print()
    processes = [_format_process(process, report) for process in report["processes"]]
    print_table(_PROCESS_COLUMNS, processes, "no process has run")
    for waiting in report["waiting_processes"]:
        print(_format_waiting(waiting, report))
    for restart in report["restarts"]:
        print(_format_restart(restart))


def _summarize(report: Mapping[str, Any]) -> Iterator[str]:
    """One line for each part of the workspace."""
    from moirae.evaluation import EventContexts
    from moirae.history import format_progress
    from moirae.inspect import (
        describe_lost_verdicts,
        describe_rewrites,
        describe_rewritten_files,
        summarize_backups,
        summarize_rows_ahead,
    )

    events = report["events"]
    running = [rule for rule in report["rules"] if rule["state"] == "running"]
    yield from describe_rewrites(report["column_rewrites"])
    yield from describe_rewritten_files(report["streams"])
    if report["ingest"]:
        yield _format_ingest(report["ingest"])
    rows_ahead = summarize_rows_ahead(report["streams"])
    if rows_ahead is not None:
        yield rows_ahead
    alerts = f"alerts: {_format_counts(dict(sorted(report['alerts'].items())))}"
    if report["alerts_keep_seconds"] is not None:
        keep = format_duration(timedelta(seconds=report["alerts_keep_seconds"]))
        alerts += f"; kept for {keep} after their end"
    yield alerts
    yield f"events: {events['settled']:,} settled, {events['detected']:,} not settled yet"
    yield f"chunks: {_format_counts(report['chunks'])}"
    yield f"recalls: {_format_counts(dict(sorted(report['recalls'].items())))}"
    if report["recall_queue"]["oldest_seconds"] >= _OVERLOAD_AGE:
        yield format_overload(report["recall_queue"])
    for rule, count in report["truncated_contexts"].items():
        yield (
            f"contexts of {rule}: {count:,} truncated at {EventContexts.MAX_ROWS:,} rows "
            "(see `moirae events show`)"
        )
    yield from _summarize_storage(report["storage"])
    backups = summarize_backups(report)
    if backups is not None:
        yield backups
    yield f"rules: {len(running)} of {len(report['rules'])} running"
    yield from map(describe_lost_verdicts, report["lost_verdicts"][:_MAX_LOSING_RULES])
    for rule, progress in report["history"].items():
        yield f"history of {rule}: {format_progress(progress)}"
    for stream in report["derived"]:
        yield (
            f"derived stream {stream['stream']}: {stream['rows']:,} rows of "
            f"{stream['chunks']} chunks archived"
        )
    for index in report["indexes"]:
        yield (
            f"index of {index['rule']} ({', '.join(index['contexts'])}): "
            f"{index['written']:,} of {index['events']:,} events written"
        )
        for part in index["parts"]:
            holder = f"in memory of {part['holder']}" if part["holder"] else "read when needed"
            yield f"  {holder}: {part['parts']:,} parts, {format_size(part['bytes'])}"


def _summarize_storage(storage: Mapping[str, Any]) -> Iterator[str]:
    """What the workspace takes on disk by kind, and what each stream takes; none if not measured."""
    kinds = {kind: size for kind, size in storage["kinds"].items() if size}
    if storage["measured_at"] is None:
        return
    parts = ", ".join(f"{format_size(size)} {kind}" for kind, size in kinds.items())
    yield f"storage: {format_size(sum(kinds.values()))}: {parts}"
    for stream in storage["streams"]:
        if stream["bytes_per_day"] is None:
            continue
        line = f"storage of {stream['stream']}: {format_size(round(stream['bytes_per_day']))} a day"
        if stream["keep_bytes"] is not None:
            keep = format_duration(timedelta(seconds=stream["keep_seconds"]))
            line += f", {format_size(stream['keep_bytes'])} in the {keep} that are kept"
        yield line


def format_overload(queue: Mapping[str, Any]) -> str:
    """A warning that recalls are requested faster than they are answered."""
    return (
        f"overloaded: {queue['queued']:,} recalls queued (oldest {queue['oldest_seconds']:.0f} s), "
        f"{queue['answered']:,} of them with a first answer"
    )


def _format_ingest(ingest: Mapping[str, Any]) -> str:
    """The last batch with its engine."""
    text = (
        f"ingest: batch {ingest['batch']:,} by engine {ingest['engine']}, "
        f"{ingest['rows_per_second']:,.0f} rows/s"
    )
    if ingest["tasks"]:
        text += f", {ingest['tasks']:,} tasks on {_count(ingest['executors'], 'executor')}"
    batches = ", ".join(f"{count:,} {engine}" for engine, count in ingest["batches"].items())
    return f"{text} (batches: {batches})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


def _format_stream(name: str, stream: Mapping[str, Any]) -> list[Any]:
    account = stream["accounting"]
    return [
        name,
        account["read"],
        account["archived"],
        stream["late"],
        account["duplicates"],
        account["dead_lettered"],
        stream["newest"],
    ]


def _format_unread(unread: Mapping[str, Any]) -> str:
    waiting = timedelta(seconds=round(unread["waiting_seconds"]))
    return f"unread input of {unread['stream']}: the oldest arrived {waiting} ago"


def _format_waiting(waiting: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """A process that takes over from another machine when that fails."""
    holders = {process["role"]: process["machine"] for process in report["processes"]}
    since = format_time(to_seconds(waiting["started_at"]))
    return (
        f"{waiting['role']} on {waiting['machine']} waits since {since} to take over from "
        f"{holders.get(waiting['role'], 'another machine')}"
    )


def _format_restart(restart: Mapping[str, Any]) -> str:
    last = format_time(to_seconds(restart["last_ended_at"]))
    return (
        f"{restart['process']} ended by an error: {restart['last_hour']} within the last hour, "
        f"{restart['last_day']} within a day, last at {last}: {restart['reason']}"
    )


def _format_process(process: Mapping[str, Any], report: Mapping[str, Any]) -> list[Any]:
    from moirae.inspect import describe_liveness

    return [
        process["role"],
        str(process["pid"]),
        process["state"],
        describe_liveness(process, report),
        to_seconds(process["started_at"]),
        get_first_line(process["error"]),
    ]
