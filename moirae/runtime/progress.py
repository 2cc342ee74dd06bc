"""Progress of long operations: a bar on a terminal, or lines on standard error."""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import IO, TYPE_CHECKING

import structlog
from rich.console import Console
from rich.text import Text

import sql
from archiver.periodic import Timer
from moirae.runtime.logs import print_logs_with, prints_plain_messages
from moirae.runtime.roles import list_processes
from sql.alerts import AlertGateway
from sql.archive import UnitGateway
from sql.recalls import TaskGateway

if TYPE_CHECKING:
    from rich.progress import Progress

_LOG = structlog.get_logger()

_FIRST_INTERVAL = 3.0  # seconds between the first two lines
_MAX_INTERVAL = 30.0  # seconds
_INTERVAL_GROWTH = 1.2  # factor: lines become rarer the longer a drain takes


@contextmanager
def open_progress_bar(console: Console) -> "Iterator[Progress]":
    """A progress bar that is erased at the end. Nothing is drawn if the console is not a terminal.

    While it is drawn, log lines, standard output and standard error that go to the same terminal
    are printed above it.
    """
    from rich.progress import Progress  # loaded here: most commands have no progress bar

    shares_stderr = console.is_terminal and _is_same_file(console.file, sys.stderr)
    progress = Progress(
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=console.is_terminal and _is_same_file(console.file, sys.stdout),
        redirect_stderr=shares_stderr,
    )
    with ExitStack() as stack:
        if shares_stderr:
            stack.enter_context(print_logs_with(partial(_print_unwrapped, console)))
        yield stack.enter_context(progress)


def _print_unwrapped(console: Console, line: str) -> None:
    """Print a line that the terminal itself wraps: a copied JSON line remains one line."""
    console.print(Text(line), soft_wrap=True)


def _is_same_file(first: IO[str], second: IO[str]) -> bool:
    """Whether both write to the same terminal or file; False for streams in memory."""
    try:
        return os.path.sameopenfile(first.fileno(), second.fileno())
    except (OSError, ValueError):  # not a file, or closed
        return False


class ProgressReporter:
    """Reports once that a workspace is running; in a drain, its progress at growing intervals."""

    def __init__(self, drain: bool) -> None:
        self._drain = drain
        self._baseline: tuple[int, int] | None = None  # records and events at the first report
        self._interval = _FIRST_INTERVAL
        self._timer = Timer(_FIRST_INTERVAL, first_after=_FIRST_INTERVAL)
        self._last_line = ""

    def report(self, connection: sql.Connection) -> None:
        """Print or log a line if one is due and differs from the last.

        Skipped if the database fails.
        """
        if not self._timer.is_due():
            return
        self._timer.restart(after=self._interval)
        try:
            line = self._drain_line(connection) if self._drain else self._startup_line(connection)
        except sql.DatabaseError:
            return
        if line and line != self._last_line:
            self._print(line)
            self._last_line = line
        if self._drain:
            self._interval = min(self._interval * _INTERVAL_GROWTH, _MAX_INTERVAL)

    def _print(self, line: str) -> None:
        if prints_plain_messages():
            with suppress(OSError):  # standard error may be closed
                print(f"moirae: {line}", file=sys.stderr, flush=True)
        elif self._drain:
            _LOG.info("drain progress", action="drain_progress", progress=line)
        else:
            _LOG.info("workspace is running", action="workspace_running")

    def _startup_line(self, connection: sql.Connection) -> str:
        """Empty until the live process of this start is running."""
        processes_by_role = {process["role"]: process for process in list_processes(connection)}
        supervisor = processes_by_role["up"]
        live = processes_by_role.get("live")
        if live is None or live["state"] != "running":
            return ""
        if live["started_at"] < supervisor["started_at"]:
            return ""
        self._timer.restart(after=math.inf)
        return "running; `moirae status` shows the state of the workspace"

    def _drain_line(self, connection: sql.Connection) -> str:
        """Records and events since the first report, and open recalls."""
        records = sum(map(attrgetter("read"), UnitGateway(connection).sum_by_stream()))
        counts = AlertGateway(connection).count_by_state()
        recalls_by_state = TaskGateway(connection).count_by_state()
        events = counts.settled_events + counts.detected_events
        if self._baseline is None:
            self._baseline = records, events
        open_recalls = recalls_by_state.get("waiting", 0) + recalls_by_state.get("running", 0)
        if (records, events) == self._baseline and not open_recalls:
            return "starting"
        line = (
            f"{records - self._baseline[0]:,} records read, {events - self._baseline[1]:,} events"
        )
        if open_recalls:
            line += f"; {open_recalls:,} recalls open"
        return line
