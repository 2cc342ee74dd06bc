"""`up`, `run`, `demo`: the processes."""

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import structlog
import typer

from archiver.errors import StorageFailed
from moirae.cli.options import WORKSPACE, Output, OutputOption, Workspace
from moirae.errors import MoiraeError, Unreachable
from moirae.settings import from_environment

# A fault of the software, as sysexits.h names it.
FELL = 70

run = typer.Typer(help="Run one process of a workspace, as `up` does.", no_args_is_help=True)

Drain = Annotated[bool, typer.Option("--drain", help="Read what is there, settle everything, end.")]


def up(workspace: Workspace = WORKSPACE, drain: Drain = False) -> None:
    """Start all processes of the workspace and keep them running."""
    from moirae.status import print_summary
    from moirae.up import up as supervise

    settings = from_environment(workspace)
    if not drain:
        print(f"moirae is starting {settings.file.parent}; Ctrl-C ends it", file=sys.stderr)
    code = supervise(settings, drain)
    if code == 0 and drain:
        code = print_summary(settings)
    raise typer.Exit(code)


@run.command("live")
def live(
    workspace: Workspace = WORKSPACE,
    drain: Drain = False,
    apply_rules: Annotated[bool, typer.Option("--apply-rules", hidden=True)] = False,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Archive the streams and judge the rules."""
    from moirae.live.run import run as run_live

    stop, reload = _told_to_end(), threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: reload.set())
    settings = from_environment(workspace)
    try:
        run_live(settings, stop, drain, apply_rules, parent, reload)
    except MoiraeError:
        raise
    except StorageFailed as error:
        _end_at_once(error)
    except Exception:
        # Perhaps Spark is gone: nothing may wait for its threads. What is not committed is done again.
        structlog.get_logger().exception("live process fell", action="crashed")
        os._exit(FELL)
    # All is stored. An orderly end makes DuckDB print pages about objects that threads still hold.
    sys.stdout.flush()
    os._exit(0)


@run.command("recall")
def recall(
    workspace: Workspace = WORKSPACE,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Ask the past about alerts."""
    from moirae.recaller import run as run_recall

    stop = _told_to_end()
    settings = from_environment(workspace)
    try:
        run_recall(settings, stop, parent)
    except MoiraeError:
        raise
    except StorageFailed as error:
        _end_at_once(error)
    except Exception:
        structlog.get_logger().exception("recall process fell", action="crashed")
        os._exit(FELL)
    # All is stored. An orderly end makes DuckDB print pages about objects that threads still hold.
    os._exit(0)


@run.command("server")
def server(
    workspace: Workspace = WORKSPACE,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """Take rows that are posted, answer about alerts and rules."""
    from moirae.server.run import run as run_server

    run_server(from_environment(workspace), _told_to_end(), parent)


def _end_at_once(error: StorageFailed) -> NoReturn:
    """Threads may be in the middle of requests to the store, which are tried again and again: nobody waits for them."""
    with suppress(OSError):
        print(f"moirae: {error}", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout.flush()
    os._exit(Unreachable.exit_code)


def _told_to_end() -> threading.Event:
    """Set by the signals that end a process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def demo(
    once: Annotated[bool, typer.Option("--once", help="A short live phase, then end.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds give other failures.")] = 1,
    directory: Annotated[Path, typer.Option("--dir", help="Where the demo's workspace is made.")] = Path(
        ".moirae-demo"
    ),
    output: OutputOption = Output.TABLE,
) -> None:
    """Play a simulated testbed: two weeks of history, then live failures."""
    from moirae.demo.run import demo as play

    raise typer.Exit(play(directory.absolute(), seed, once, output is Output.JSON))
