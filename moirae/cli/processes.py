"""`up`, `run`, `demo`: the processes."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import structlog
import typer

from archiver.errors import StorageFailed
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_warnings,
)
from moirae.config import load_settings_from_environment
from moirae.errors import MoiraeError, Unreachable
from moirae.runtime import Signals

# A fault of the software, as sysexits.h names it.
EXIT_INTERNAL_ERROR = 70

run_app = typer.Typer(help="Run one process of a workspace, as `up` does.", no_args_is_help=True)

DrainOption = Annotated[
    bool, typer.Option("--drain", help="Read what is there, settle everything, end.")
]


def up(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    drain: DrainOption = False,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Start all processes of the workspace and keep them running."""
    from moirae.deployments import RuleRegistry
    from moirae.inspect import print_summary
    from moirae.runtime import release_database
    from moirae.runtime import run_supervisor as supervise

    settings = load_settings_from_environment(workspace)
    print_warnings(settings.warnings)
    if not drain:
        print(f"moirae is starting {settings.file.parent}; Ctrl-C ends it", file=sys.stderr)
    try:
        code = supervise(
            settings, drain, lambda connection: RuleRegistry(connection).request_reload(), parent
        )
        if code == 0 and drain:
            code = print_summary(settings)
    finally:
        release_database(settings)
    raise typer.Exit(code)


@run_app.command("live")
def live(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    drain: DrainOption = False,
    apply_rules: Annotated[bool, typer.Option("--apply-rules", hidden=True)] = False,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Archive the streams and judge the rules."""
    from moirae.live import run_live

    signals = Signals(reloads=True)
    settings = load_settings_from_environment(workspace)
    try:
        run_live(settings, signals.stop, drain, apply_rules, parent, signals.reload)
    except MoiraeError:
        raise
    except StorageFailed as error:
        _exit_immediately(error)
    except Exception:
        # Perhaps Spark is gone: nothing may wait for its threads. What is not committed is done again.
        structlog.get_logger().exception("live process fell", action="crashed")
        os._exit(EXIT_INTERNAL_ERROR)
    # All is stored. An orderly end makes DuckDB print pages about objects that threads still hold.
    sys.stdout.flush()
    os._exit(0)


@run_app.command("recall")
def recall(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Ask the past about alerts."""
    from moirae.recall_process import run_recall as run_recall

    signals = Signals()
    settings = load_settings_from_environment(workspace)
    try:
        run_recall(settings, signals.stop, parent)
    except MoiraeError:
        raise
    except StorageFailed as error:
        _exit_immediately(error)
    except Exception:
        structlog.get_logger().exception("recall process fell", action="crashed")
        os._exit(EXIT_INTERNAL_ERROR)
    # All is stored. An orderly end makes DuckDB print pages about objects that threads still hold.
    os._exit(0)


@run_app.command("server")
def server(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Take rows that are posted, answer about alerts and rules."""
    from moirae.server import run_server

    run_server(load_settings_from_environment(workspace), Signals().stop, parent)


def _exit_immediately(error: StorageFailed) -> NoReturn:
    """Threads may be in the middle of requests to the store, which are tried again and again: nobody waits for them."""
    with suppress(OSError):
        print(f"moirae: {error}", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout.flush()
    os._exit(Unreachable.exit_code)


def demo(
    once: Annotated[bool, typer.Option("--once", help="A short live phase, then end.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other failures.")] = 1,
    directory: Annotated[
        Path, typer.Option("--dir", help="Where the demo's workspace is made.")
    ] = Path(".moirae-demo"),
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Play a simulated testbed: two weeks of history, then live failures."""
    from moirae.demo import run_demo as play

    raise typer.Exit(play(directory.absolute(), seed, once, output is OutputFormat.JSON))
