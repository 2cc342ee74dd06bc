"""`moirae demo`: the simulated testbed in a workspace, two weeks of history, then a live phase."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from rich.console import Console

import sql
from moirae.config import Settings, load_settings_from_environment
from moirae.demo.cluster import WORKERS, move_to_cluster
from moirae.demo.history_files import write_history, write_rows
from moirae.demo.login import create_login_url
from moirae.demo.report import (
    AlertNarrator,
    DemoReport,
    compute_summary,
    print_next_commands,
    print_previous_workspace,
    shorten_path,
)
from moirae.demo.resolutions import record_resolutions
from moirae.demo.testbed import STREAMS, Testbed
from moirae.demo.up_process import UpProcess, run_up
from moirae.errors import MoiraeError
from moirae.runtime import (
    Signals,
    connect_database,
    open_progress_bar,
    release_database,
    release_embedded_database,
    write_json,
)
from moirae.runtime.logs import LogFormat, effective_log_format
from sql.recalls import TaskGateway
from sql.reports import DemoGateway

if TYPE_CHECKING:
    from rich.progress import Progress

_MARKER_NAME = ".moirae-demo"  # an empty file in each demo workspace
_EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_LOG_FILE_NAME = "up.log"  # in the demo's workspace
_WRITE_INTERVAL = 0.25  # seconds between two files of live rows
_WATCH_AFTER_END = 4.0  # seconds to wait for alerts after the last file of live rows
_HISTORY_TIMEOUT = 600.0  # seconds until history must be evaluated
_CLUSTER_HISTORY_TIMEOUT = 1800.0  # the same; a machine may have fewer cores than processes
_HISTORY_POLL = 0.3  # seconds
_DRAIN_POLL = 0.1  # seconds
_UP_POLL = 1.0  # seconds


@dataclass(frozen=True)
class Phases:
    """How long the phases of a demo are."""

    history: timedelta = timedelta(days=14)
    """At least one day."""
    live: timedelta = timedelta(minutes=10)
    """In real time; at least 30 s. From ten minutes on, failures recur."""
    live_played: timedelta | None = None
    """How much of the live phase is played; None: all of it."""


# Four batches a second of 0.3 s of processor time take 1.2 cores, recalls and the other processes
# two or three. With fewer cores the alerts of the demo would be delayed.
_SPARK_CORES = 4


@dataclass(frozen=True)
class DemoHost:
    """Where a demo runs.

    `port`: of the dashboard; None: the default of workspaces. `on_cluster`: on a Spark cluster of
    this machine, which ends with the demo.
    """

    port: int | None = None
    on_cluster: bool = False


DEFAULT_HOST = DemoHost()
DEFAULT_PHASES = Phases()
UNATTENDED_PHASES = Phases(live=timedelta(minutes=5))  # without a terminal
ONCE_PHASES = Phases(live=timedelta(seconds=60))


@dataclass(frozen=True)
class _Options:
    """How a demo is played: the parameters of `run_demo`."""

    seed: int
    once: bool
    as_json: bool
    phases: Phases
    log_format: LogFormat
    on_cluster: bool


class _Interrupted(MoiraeError):
    """A signal, or the end of the terminal, stops the demo."""


def run_demo(
    directory: Path,
    seed: int,
    once: bool,
    as_json: bool,
    phases: Phases | None = None,
    log_format: LogFormat = LogFormat.AUTO,
    host: DemoHost = DEFAULT_HOST,
) -> int:
    """Play the demo in its own workspace, the directory; returns an exit code.

    `once`: short live phase, drain, exit. `as_json`: standard output holds one JSON object, the
    summary. Otherwise, at a terminal, the dashboard stays up after the live phase, until a signal.
    `phases`: None: those of the command. `log_format`: of the log file; `auto` depends on the
    demo's own standard error.
    """
    stop = Signals().stop
    console = Console(stderr=as_json)
    if phases is None and once:
        phases = ONCE_PHASES
    elif phases is None:
        phases = DEFAULT_PHASES if console.is_terminal else UNATTENDED_PHASES
    previous = move_previous_workspace(directory)
    if previous is not None:
        print_previous_workspace(console, previous)
    embedded = create_workspace(directory, host.port, host.on_cluster)
    options = _Options(
        seed, once, as_json, phases, effective_log_format(log_format), host.on_cluster
    )
    code = 0
    summary = None
    has_history = False
    try:
        with ExitStack() as stack:
            settings = (
                stack.enter_context(move_to_cluster(embedded)) if host.on_cluster else embedded
            )
            demo = _Demo(settings, options, console, stop)
            try:
                summary = demo.play()
            finally:
                has_history = demo.has_history
    except _Interrupted:
        code = _EXIT_INTERRUPTED
    finally:
        release_database(embedded)
    if as_json and summary is not None:
        write_json(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    if not as_json and has_history and not host.on_cluster:
        print_next_commands(console, embedded.file)
    return code


def move_previous_workspace(directory: Path) -> Path | None:
    """Move the workspace of an earlier demo out of the way, with the notes of its user.

    Returns where it is now; None if there is none. The one that was moved before it is deleted.
    """
    previous = directory.with_name(f"{directory.name}.old")
    if not _holds_demo(directory):
        return None
    if _holds_demo(previous):
        shutil.rmtree(previous)
    directory.rename(previous)
    return previous


def _holds_demo(directory: Path) -> bool:
    """Whether a directory is the workspace of a demo that does not run; False if it has no files.

    Raises `MoiraeError` for other files, and for a workspace in use.
    """
    if not directory.exists() or not any(directory.iterdir()):
        return False
    if not (directory / _MARKER_NAME).exists():
        raise MoiraeError(
            f"{directory}: directory is not empty and not a demo workspace; choose another --dir"
        )
    if not release_embedded_database(directory / ".moirae"):
        raise MoiraeError(
            f"{directory}: workspace is in use by other processes; stop them "
            "or choose another --dir"
        )
    return True


def create_workspace(
    directory: Path, port: int | None = None, on_cluster: bool = False
) -> Settings:
    """Create the demo's workspace in a directory that does not exist or is empty."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _MARKER_NAME).touch()
    with as_file(files("moirae.demo") / "workspace") as template:
        shutil.copytree(template, directory, dirs_exist_ok=True)
    with (directory / "moirae.yaml").open("a") as file:
        if has_cores_for_spark() and not on_cluster:
            file.write("\nengine: spark\n")
        if port is not None:
            file.write(f"\nserver: {{listen: 127.0.0.1:{port}}}\n")
    return load_settings_from_environment(directory / "moirae.yaml")


def has_cores_for_spark() -> bool:
    """Whether executors can do all the work of the live process without delaying the demo."""
    return (os.cpu_count() or 1) >= _SPARK_CORES


class _Demo:
    """One run of the demo in its workspace."""

    def __init__(
        self, settings: Settings, options: _Options, console: Console, stop: threading.Event
    ) -> None:
        """`stop` is set when a signal interrupts the demo."""
        self.has_history = False
        """Whether history is evaluated: from then on the workspace is worth a look."""
        self._settings = settings
        self._options = options
        self._directory = settings.file.parent
        self._log_file = self._directory / _LOG_FILE_NAME
        self._console = console
        self._report = DemoReport(console)
        self._stop = stop
        self._progress: Progress | None = None  # the bar that is drawn now
        phases = options.phases
        self._start = datetime.now(UTC)  # planned start of the live phase
        self._end = self._start + (phases.live_played or phases.live)
        self._testbed = Testbed(
            options.seed,
            history_start=self._start - phases.history,
            live_start=self._start,
            live_end=self._start + phases.live,
        )

    def play(self) -> dict[str, Any]:
        """Play history and the live phase, print the summary unless it is wanted as JSON.

        A demo played `once` ends when all recalls have ended. Returns the summary.
        """
        self._print_opening()
        file_count = self._write_history()
        with closing(connect_database(self._settings, "demo")) as connection:
            with self._run_up() as up:
                self._await_history(connection, up, file_count)
                self.has_history = True
                live_from = self._play_live(connection, up)
                if self._stays_up():
                    summary = self._summarize(connection, live_from)
                    self._keep_running(up)
                    return summary
            if self._options.once:
                self._drain(connection)
            return self._summarize(connection, live_from)

    def _stays_up(self) -> bool:
        """Whether the dashboard stays up after the live phase: a user may be reading it."""
        return self._console.is_terminal and not self._options.once and not self._options.as_json

    def _summarize(self, connection: sql.Connection, live_from: datetime) -> dict[str, Any]:
        """Compute the summary, and print it unless it is wanted as JSON."""
        shift = live_from - self._start
        summary = compute_summary(connection, live_from, self._testbed.failures, shift)
        if not self._options.as_json:
            self._report.print_result(summary)
        return summary

    def _keep_running(self, up: UpProcess) -> None:
        """Keep all processes running until a signal."""
        self._report.print_live_phase_over(self._settings)
        while not self._stop.wait(_UP_POLL):
            up.check_running()
        self._console.print("Stopping the demo's processes …")

    def _print_opening(self) -> None:
        """What will happen, for how long, and how to end it."""
        live = self._options.phases.live_played or self._options.phases.live
        ending = "The dashboard then stays up until Ctrl-C." if self._stays_up() else ""
        if self._options.once:
            ending = "It ends when all recalls have ended."
        self._console.print(
            f"A simulated testbed of {len(self._testbed.nodes)} nodes: "
            f"{self._options.phases.history.days} days of history, then {_format_duration(live)} of live "
            f"failures. {ending}"
        )
        self._console.print("Ctrl-C ends the demo at any time; its workspace remains.")
        if self._options.on_cluster:
            self._console.print(
                f"On a cluster of this machine: {self._settings.spark.master} with {WORKERS} workers, "
                "object storage and PostgreSQL. All end with the demo.",
                highlight=False,
            )
        else:
            self._console.print(_describe_engine())
        log_file = shorten_path(self._log_file)
        self._console.print(f"Logs are written to {log_file}.", soft_wrap=True)

    def _write_history(self) -> int:
        """Write history as files, and the relation `hosts`; returns the number of history files."""
        nodes = self._testbed.nodes
        with (self._directory / "hosts.csv").open("w") as file:
            file.write("host,site,cores,memory_gb\n")
            for node in nodes:
                file.write(f"{node.host},{node.site},{node.cores},{node.memory_gb}\n")
        file_count = 0
        with self._open_progress_bar() as progress:
            total = len(STREAMS) * (self._options.phases.history.days + 1)
            task = progress.add_task("writing history", total=total)
            for _ in write_history(self._testbed, self._directory / "landing"):
                file_count += 1
                progress.advance(task)
                self._wait(0.0)
        return file_count

    def _run_up(self, *options: str) -> AbstractContextManager[UpProcess]:
        return run_up(self._settings.file, self._log_file, self._options.log_format, *options)

    def _await_history(self, connection: sql.Connection, up: UpProcess, file_count: int) -> None:
        """Wait until all history files are archived and all rules are evaluated over them."""
        timeout = _CLUSTER_HISTORY_TIMEOUT if self._options.on_cluster else _HISTORY_TIMEOUT
        deadline = time.monotonic() + timeout
        with self._open_progress_bar() as progress:
            task = progress.add_task("archiving and evaluating history", total=file_count + 1)
            while time.monotonic() < deadline:
                up.check_running()
                archived_count, is_evaluated = DemoGateway(connection).history_progress()
                progress.update(task, completed=archived_count)
                if archived_count >= file_count and is_evaluated:
                    return
                self._wait(_HISTORY_POLL)
        raise up.error(f"history was not evaluated within {timeout:.0f} s")

    def _play_live(self, connection: sql.Connection, up: UpProcess) -> datetime:
        """Write live rows when they are due and print alerts; returns the start of the phase."""
        resolution_count = record_resolutions(connection, self._testbed.failures)
        login_url = create_login_url(connection)
        live_from = datetime.now(UTC)
        shift = live_from - self._start
        live_until = self._end + shift
        self._console.print(
            f"History is evaluated; {resolution_count} past alerts have a note on how they were "
            f"fixed. The live phase starts: it lasts until {live_until:%H:%M:%S} UTC.\n",
            highlight=False,
        )
        self._report.print_dashboard(login_url, recurring=self._testbed.repeats_causes)
        narrator = AlertNarrator(connection, self._console, live_from)
        length = (self._end - self._start).total_seconds()
        with self._open_progress_bar() as progress:
            task = progress.add_task(f"live until {live_until:%H:%M:%S} UTC", total=length)
            for since, until in self._due_intervals(shift):
                up.check_running()
                self._write_live_rows(since, until, shift)
                narrator.print_new()
                progress.update(task, completed=(until - self._start).total_seconds())
        return live_from

    def _due_intervals(self, shift: timedelta) -> Iterator[tuple[datetime, datetime]]:
        """Intervals [since, until) of the planned live phase when they are due, `shift` later.

        Then empty ones for as long as alerts may follow.
        """
        since = self._start
        while since < self._end:
            until = min(datetime.now(UTC) - shift, self._end)
            if until > since:
                yield since, until
                since = until
            self._wait(_WRITE_INTERVAL)
        for _ in range(int(_WATCH_AFTER_END / _WRITE_INTERVAL)):
            yield self._end, self._end
            self._wait(_WRITE_INTERVAL)

    def _write_live_rows(self, since: datetime, until: datetime, shift: timedelta) -> None:
        """Write one file for each stream with rows; their times are `shift` later than planned."""
        for stream in STREAMS:
            rows = []
            for row in self._testbed.live(stream, since, until):
                rows.append({**row, "ts": _shift_time(str(row["ts"]), shift)})
            if rows:
                name = f"live-{since:%Y%m%dT%H%M%S.%f}.jsonl"
                write_rows(self._directory / "landing" / stream / name, rows)

    def _drain(self, connection: sql.Connection) -> None:
        """Run the workspace until all recalls have ended."""
        tasks = TaskGateway(connection)
        if count := tasks.count_open():
            self._console.print(f"\nFinishing {count:,} recalls, which takes minutes …")
        with self._run_up("--drain") as up:
            while not up.has_succeeded():
                self._wait(_DRAIN_POLL)

    def _wait(self, seconds: float) -> None:
        """Raises `_Interrupted` when the demo is interrupted, after a message."""
        if self._stop.wait(seconds):
            if self._progress is not None:
                self._progress.stop()  # otherwise the bar is drawn again below the message
            print("Interrupted: stopping the demo's processes …", file=sys.stderr, flush=True)
            raise _Interrupted

    @contextmanager
    def _open_progress_bar(self) -> Iterator[Progress]:
        """A progress bar that an interrupt erases before its message."""
        with open_progress_bar(self._console) as progress:
            self._progress = progress
            try:
                yield progress
            finally:
                self._progress = None


def _shift_time(ts: str, shift: timedelta) -> str:
    moment = datetime.fromisoformat(ts) + shift
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _format_duration(duration: timedelta) -> str:
    minutes, seconds = divmod(round(duration.total_seconds()), 60)
    if minutes == 0:
        return f"{seconds} seconds"
    if minutes == 1 and seconds == 0:
        return "a minute"
    return f"{minutes + seconds / 60:g} minutes"


def _describe_engine() -> str:
    if has_cores_for_spark():
        return "Engine spark: executors do the work of the live process."
    return (
        f"Engine auto, which uses executors for large batches: with fewer than {_SPARK_CORES} cores, "
        "engine spark would delay alerts."
    )
