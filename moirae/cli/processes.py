"""`moirae up`, `run` and `demo`: run the processes of a workspace."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import structlog
import typer

import sql
from archiver.clock import utc_now
from archiver.errors import DataFileDamaged, LogDamaged, StorageFailed
from archiver.threads import set_failure_handler
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_warnings,
)
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError, Stopped, Unreachable, first_line
from moirae.runtime import Signals, connect_database, describe_error
from moirae.runtime.logs import LogFormat, configure_logging, prints_plain_messages
from sql.processes import ProcessExitGateway
from sql.rules import RuleFileGateway

_LOG = structlog.get_logger()

# Internal software error, EX_SOFTWARE of sysexits.h.
EXIT_INTERNAL_ERROR = 70
# Seconds after an error in which the JVM counts as its cause: connections to it break before its
# exit is visible.
_JVM_EXIT_TIMEOUT = 1.0

run_app = typer.Typer(
    help="Run one process of a workspace, as `moirae up` does.", no_args_is_help=True
)

_NO_RULE_FILES = (
    "no rule files: rows are archived, and only rules of `moirae rules apply` are evaluated"
)
_NO_STREAMS = "no streams are declared: only alerts that other systems post are archived"

DrainOption = Annotated[
    bool,
    typer.Option("--drain", help="Process all available input, wait for all recalls, then exit."),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        help="Format of log lines. auto: text if standard error is a terminal, else JSON.",
    ),
]


def up(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    drain: DrainOption = False,
    log_format: LogFormatOption = LogFormat.AUTO,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Start all processes of the workspace and keep them running."""
    from moirae.runtime import release_database, run_supervisor

    configure_logging(log_format)
    settings = load_settings_from_environment(workspace)
    print_warnings(settings.warnings)
    if prints_plain_messages():
        if not drain:
            print(f"starting {settings.file.parent}; press Ctrl-C to stop", file=sys.stderr)
    else:
        _LOG.info(
            "workspace is starting",
            action="workspace_starting",
            workspace=str(settings.file.parent),
        )
    _exit_on_thread_failure("up", settings)
    started_at = utc_now()
    _check_changed_keys(settings)
    if not settings.find_rule_files():
        print(_NO_RULE_FILES, file=sys.stderr)
    if not settings.declares_streams:
        print(_NO_STREAMS, file=sys.stderr)
    code = 0
    try:
        with suppress(Stopped):  # while it waited for another machine
            code = run_supervisor(
                settings,
                drain,
                lambda connection: RuleFileGateway(connection).request_reload(),
                parent=parent,
                log_format=log_format,
            )
        if code == 0 and drain:
            from moirae.inspect import print_summary  # slow to load, and not needed before

            code = print_summary(settings, started_at)
    finally:
        release_database(settings)
    raise typer.Exit(code)


def _check_changed_keys(settings: Settings) -> None:
    """Check what would end the processes later. Raises `MoiraeError`."""
    from moirae.runtime.storage import find_changed_types

    if find_changed_types(settings):
        from moirae.deployments import check_changed_keys  # slow to load, and rarely needed

        check_changed_keys(settings)


@run_app.command()
def live(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    drain: DrainOption = False,
    log_format: LogFormatOption = LogFormat.AUTO,
    apply_rules: Annotated[bool, typer.Option("--apply-rules", hidden=True)] = False,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Run the live process: archive input and evaluate rules."""
    from moirae.live import run_live

    def run(settings: Settings, signals: Signals) -> None:
        run_live(settings, signals.stop, drain, apply_rules, parent, signals.reload)

    _run_process("live", workspace, log_format, run, reloads=True)


@run_app.command()
def recall(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    log_format: LogFormatOption = LogFormat.AUTO,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Run a recall process: answer recalls from the archive."""
    from moirae.recall_process import run_recall

    def run(settings: Settings, signals: Signals) -> None:
        run_recall(settings, signals.stop, parent)

    _run_process("recall", workspace, log_format, run)


@run_app.command()
def server(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    log_format: LogFormatOption = LogFormat.AUTO,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Run the HTTP server: API and posted rows."""
    from moirae.server import run_server

    def run(settings: Settings, signals: Signals) -> None:
        run_server(settings, signals.stop, parent)

    # The server answers that PostgreSQL is away, and stays.
    _run_process("server", workspace, log_format, run, exits_at_outage=False)


@run_app.command()
def notify(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    log_format: LogFormatOption = LogFormat.AUTO,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Run the process of notifications: send alerts to receivers."""
    from moirae.notify import run_notify

    def run(settings: Settings, signals: Signals) -> None:
        run_notify(settings, signals.stop, signals.reload, parent)

    _run_process("notify", workspace, log_format, run, reloads=True)


@run_app.command()
def backup(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    log_format: LogFormatOption = LogFormat.AUTO,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Run the backup process: make backups as the workspace file schedules them."""
    from moirae.backup import run_backups

    def run(settings: Settings, signals: Signals) -> None:
        run_backups(settings, signals.stop, parent)
        os._exit(0)  # a backup in progress is continued by the next one

    _run_process("backup", workspace, log_format, run)


def _run_process(
    process: str,
    workspace: Path,
    log_format: LogFormat,
    run: Callable[[Settings, Signals], None],
    *,
    reloads: bool = False,
    exits_at_outage: bool = True,
) -> None:
    """Run a process of a workspace to its end.

    `reloads`: it takes SIGHUP. `exits_at_outage`: it ends with PostgreSQL or object storage.
    """
    configure_logging(log_format)
    signals = Signals(reloads=reloads)
    settings = load_settings_from_environment(workspace)
    _exit_on_thread_failure(process, settings)
    with suppress(Stopped):  # while it waited for another machine
        if not exits_at_outage:
            run(settings, signals)
            return
        with _exit_without_cleanup(process):
            run(settings, signals)


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="Run a short live phase, then exit.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the simulation: it decides which failures occur.")
    ] = 1,
    directory: Annotated[
        Path, typer.Option("--dir", help="Directory of the demo workspace.")
    ] = Path(".moirae-demo"),
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65_535, help="Port of the dashboard. Default: 8765."),
    ] = None,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="On a Spark cluster of this machine, with object storage."),
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
    log_format: LogFormatOption = LogFormat.AUTO,
) -> None:
    """Run a simulated testbed: two weeks of history, then ten minutes of live failures.

    On a terminal, the dashboard then remains available until Ctrl-C. Otherwise, the live failures
    last five minutes, and the demo exits after them. Its processes log to up.log in the workspace.
    The workspace of an earlier demo is moved to DIR.old.
    """
    from moirae.demo import DemoHost, run_demo

    configure_logging(log_format)
    as_json = output is OutputFormat.JSON
    raise typer.Exit(
        run_demo(
            directory.absolute(), seed, once, as_json, None, log_format, DemoHost(port, cluster)
        )
    )


def _exit_on_thread_failure(process: str, settings: Settings) -> None:
    """Let an error of any thread end this process, which stores it."""

    def handle(thread: str, error: BaseException) -> None:
        with suppress(Exception), connect_database(settings, "failure") as connection:
            reason = f"thread {thread}: {describe_error(error)}"
            ProcessExitGateway(connection).fail(os.getpid(), reason)
        try:
            with _exit_without_cleanup(process):
                raise error
        except BaseException as raised:
            print(f"moirae: {raised}", file=sys.stderr)
        os._exit(EXIT_INTERNAL_ERROR)

    set_failure_handler(handle)


@contextmanager
def _exit_without_cleanup(process: str) -> Iterator[None]:
    """Run a process and end it at an error without clean-up; errors of its user are raised.

    Spark may be gone then, and threads may retry requests to the storage. Work that is not
    committed is repeated by the next process.
    """
    try:
        yield
    except MoiraeError:
        raise
    except StorageFailed as error:
        _LOG.error(
            f"object storage unavailable, {process} process exits",
            action="storage_unavailable",
            process=process,
            error=str(error),
        )
        os._exit(Unreachable.exit_code)
    except (DataFileDamaged, LogDamaged) as error:
        _LOG.error(
            f"the archive is damaged, {process} process exits",
            action="archive_damaged",
            process=process,
            error=str(error),
        )
        os._exit(EXIT_INTERNAL_ERROR)
    except (sql.OperationalError, sql.InterfaceError) as error:
        _LOG.error(
            f"PostgreSQL unavailable, {process} process exits",
            action="database_unavailable",
            process=process,
            error=first_line(error),
        )
        os._exit(Unreachable.exit_code)
    except Exception:
        if _has_jvm_exited():
            _LOG.error(
                f"{process} process exits: its JVM ended unexpectedly, perhaps out of memory",
                action="jvm_exited",
                process=process,
            )
        else:
            _LOG.exception(f"{process} process crashed", action="process_crashed")
        os._exit(EXIT_INTERNAL_ERROR)


def _has_jvm_exited() -> bool:
    """Whether the JVM of this process has ended, or ends within a moment."""
    if "pyspark" not in sys.modules:
        return False
    from archiver.spark import jvm_process

    process = jvm_process()
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(_JVM_EXIT_TIMEOUT)
        return True
    return False
