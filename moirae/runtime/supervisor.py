"""`moirae up`: starts the processes of a workspace and restarts those that exit."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog

import sql
from archiver.clock import utc_now
from archiver.periodic import Periodic
from archiver.threads import start_daemon
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError, RoleLost, Unreachable
from moirae.runtime import database, storage
from moirae.runtime.leases import keep_lease, machine_name
from moirae.runtime.logs import LogFormat
from moirae.runtime.progress import ProgressReporter
from moirae.runtime.relation_declarations import check_relations
from moirae.runtime.roles import ReconnectingRole, Standby
from moirae.runtime.shared_values import check_shared_values
from moirae.runtime.signals import Signals
from sql.processes import ProcessExitGateway
from sql.recalls import TaskGateway
from sql.stages import RecalledEventGateway

_LOG = structlog.get_logger()

_SHUTDOWN_TIMEOUT = 20.0  # seconds for the children to stop before they are killed
# Seconds beyond the shutdown timeout that `up` may take when its own parent has exited.
_PARENT_EXIT_GRACE = 5.0
_PARENT_POLL = 1.0  # seconds
_CHILD_POLL = 0.1  # seconds
_DRAIN_POLL = 0.2  # seconds
_HEARTBEAT_INTERVAL = 2.0  # seconds
_RECEIVER_INTERVAL = 2.0  # seconds between looks for the first receiver of the workspace file
_FIRST_RESTART_DELAY = 0.5  # seconds; doubled at each further exit
_MAX_RESTART_DELAY = 5.0  # seconds
# Seconds until an optional process is retried whose error only an operator can fix, such as a port
# in use: it may be fixed by then.
_FINAL_RESTART_DELAY = 30.0
# Seconds of run time after which an exit is a new problem: the delay starts from the beginning.
_STABLE_AFTER = 20.0
_MAX_UNSTORED_EXITS = 100  # while the database cannot be reached
# Consecutive failed starts of a process after which a drain gives up.
_MAX_DRAIN_FAILURES = 5
# Exit codes that a restart would not change: the error message states the remedy.
_FINAL_EXIT_CODES = frozenset({1, 2})


@dataclass(frozen=True, kw_only=True)
class ChildExit:
    """An unrequested end of a child. `age`: since its start. `code`: negative: a signal."""

    name: str
    pid: int
    age: timedelta
    ended_at: datetime
    code: int

    @property
    def signal(self) -> int | None:
        """The signal that killed the process; None: it ended by itself."""
        return -self.code if self.code < 0 else None


@dataclass
class ChildProcess:
    """A supervised process of the workspace. Times are seconds of the monotonic clock."""

    name: str
    arguments: Sequence[str]  # of `moirae`
    first_start_arguments: Sequence[str] = ()  # added at the first start only
    is_vital: bool = True
    """Whether `up` stops when this process exits with a final exit code."""
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_delay: float = _FIRST_RESTART_DELAY  # seconds
    restart_at: float = 0.0
    failed_starts: int = 0
    """Consecutive exits by an error of the program soon after the start."""

    def start(self) -> None:
        """Start the process in its own process group: Ctrl-C at the terminal reaches `up` only."""
        command = [
            sys.executable,
            "-m",
            "moirae",
            *self.arguments,
            *self.first_start_arguments,
            "--parent",
            str(os.getpid()),
        ]
        self.first_start_arguments = ()
        self.process = subprocess.Popen(command, start_new_session=True)
        self.started_at = time.monotonic()

    def describe_exit(self, code: int) -> ChildExit:
        """What is known of the exit of the process."""
        assert self.process is not None
        return ChildExit(
            name=self.name,
            pid=self.process.pid,
            age=timedelta(seconds=time.monotonic() - self.started_at),
            ended_at=utc_now(),
            code=code,
        )

    def handle_exit(self, code: int) -> None:
        """Schedule the restart after an unrequested exit."""
        self._kill_process_group()
        now = time.monotonic()
        is_stable = now - self.started_at > _STABLE_AFTER
        if is_stable or code in (Unreachable.exit_code, RoleLost.exit_code):  # end by themselves
            self.failed_starts = 0
        else:
            self.failed_starts += 1
        if code in _FINAL_EXIT_CODES:
            self.restart_delay = _FINAL_RESTART_DELAY
        elif is_stable:
            self.restart_delay = _FIRST_RESTART_DELAY
        else:
            self.restart_delay = min(self.restart_delay * 2, _MAX_RESTART_DELAY)
        self.restart_at = now + self.restart_delay
        self.process = None
        if code == RoleLost.exit_code:
            _LOG.info("process restarts", action="process_restarts", process=self.name)
            return
        details = {"exit_code": code}
        if code < 0:
            details["signal"] = -code  # that killed the process
        _LOG.error(
            "process exited, restarting",
            action="process_exited",
            process=self.name,
            **details,
            restart_seconds=self.restart_delay,
        )

    def terminate(self) -> None:
        """Send SIGTERM if the process is running."""
        if self.process is not None:
            self.process.terminate()

    def wait_or_kill(self, deadline: float) -> int | None:
        """Wait for the exit; kill the process after the deadline. Returns its ID if it was killed."""
        if self.process is None:
            return None
        killed_pid = None
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            killed_pid = self.process.pid
            _LOG.warning(
                "process killed: it did not stop in time",
                action="process_killed",
                process=self.name,
            )
        self._kill_process_group()
        self.process.wait()
        return killed_pid

    def _kill_process_group(self) -> None:
        """Kill what remains of the group, above all the JVM."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def run_supervisor(
    settings: Settings,
    drain: bool,
    request_reload: Callable[[sql.Connection], object],
    parent: int | None = None,
    log_format: LogFormat = LogFormat.AUTO,
) -> int:
    """Run the workspace until a signal or, with `drain`, until all input is settled.

    `request_reload` is called with a connection at each SIGHUP. `parent`: the ID of a process whose
    exit stops the workspace. `log_format`: of the processes it starts. Returns an exit code.
    """
    storage.check_storage(settings)
    storage.check_declarations(settings)
    signals = Signals(reloads=True)
    watch_parent(parent, signals.stop, _SHUTDOWN_TIMEOUT + _PARENT_EXIT_GRACE)
    with database.connect_database(settings, "up") as connection:
        check_shared_values(settings, connection)
    role = ReconnectingRole(
        partial(database.connect_database, settings, "up"),
        "up",
        timeout=0.0,
        standby=Standby(machine_name(settings), signals.stop, waits=not drain),
    )
    keep_lease(settings, "up", role.epoch)
    with database.connect_database(settings, "up") as connection:
        storage.check_generation(settings, connection)
        check_relations(settings, connection)
    children = _make_children(settings, drain, log_format)
    role.heartbeat("running")
    supervisor = _Supervisor(children, role, signals, request_reload, drain)
    if not drain:
        watch = _ReceiverWatch(settings, children, _make_options(settings, log_format))
        supervisor.watch = Periodic("receivers", _RECEIVER_INTERVAL, watch.look)
    try:
        return supervisor.run()
    finally:
        deadline = time.monotonic() + _SHUTDOWN_TIMEOUT
        for child in children:
            child.terminate()
        killed_pids = [child.wait_or_kill(deadline) for child in children]
        with suppress(sql.DatabaseError):
            ProcessExitGateway(role.connection).mark_stopped(list(filter(None, killed_pids)))
        role.mark_ended()
        role.connection.close()


def _make_children(settings: Settings, drain: bool, log_format: LogFormat) -> list[ChildProcess]:
    """The processes of a workspace, the live process first. A drain needs no server."""
    options = _make_options(settings, log_format)
    live_arguments = ["run", "live", *options]
    if drain:
        live_arguments.append("--drain")
    children = [ChildProcess("live", live_arguments, first_start_arguments=["--apply-rules"])]
    for _ in range(settings.recall.processes):
        children.append(ChildProcess("recall", ["run", "recall", *options], is_vital=False))
    if not drain:
        children.append(ChildProcess("server", ["run", "server", *options], is_vital=False))
        if settings.receivers:
            children.append(_make_notify_process(options))
        if settings.backup is not None:
            children.append(ChildProcess("backup", ["run", "backup", *options], is_vital=False))
    return children


def _make_options(settings: Settings, log_format: LogFormat) -> list[str]:
    return ["--workspace", str(settings.file), "--log-format", log_format]


def _make_notify_process(options: Sequence[str]) -> ChildProcess:
    """The process of notifications, which a workspace without receivers does not need."""
    return ChildProcess("notify", ["run", "notify", *options], is_vital=False)


class _ReceiverWatch:
    """Starts the process of notifications once the workspace file declares a receiver."""

    def __init__(self, settings: Settings, children: list[ChildProcess], options: Sequence[str]):
        self._file = settings.file
        self._children = children
        self._options = options
        self._read_at: float | None = settings.file.stat().st_mtime

    def look(self) -> None:
        """Read the workspace file if it has changed."""
        if any(child.name == "notify" for child in self._children):
            return
        with suppress(OSError):
            changed_at = self._file.stat().st_mtime
            if changed_at == self._read_at:
                return
            self._read_at = changed_at
            # An invalid file is reported by the processes that take changes of it.
            with suppress(MoiraeError):
                if load_settings_from_environment(self._file).receivers:
                    self._children.append(_make_notify_process(self._options))


class _Supervisor:
    """The loop of `moirae up`."""

    def __init__(
        self,
        children: list[ChildProcess],
        role: ReconnectingRole,
        signals: Signals,
        request_reload: Callable[[sql.Connection], object],
        drain: bool,
    ) -> None:
        """`children`: the live process first."""
        self._children = children
        self._role = role
        self._stop = signals.stop
        self._reload = signals.reload
        self._request_reload = request_reload
        self._drain = drain
        self._progress = ProgressReporter(drain)
        self._exits = ExitRecorder()
        self.watch: Periodic | None = None
        """Runs while the workspace does; None: a drain."""

    def run(self) -> int:
        """Supervise until a stop is requested; in a drain, until no recall is open."""
        code = self._supervise()
        if self._drain and code == 0 and not self._stop.is_set():
            code = self._drain_recalls()
        self._exits.store(self._role.connection)
        if self._stop.is_set():
            _LOG.info("stopping", action="stopping")
        return code

    def _supervise(self) -> int:
        """Returns 0 when a drain has settled all input, or on a stop."""
        heartbeat = Periodic(
            "heartbeat",
            _HEARTBEAT_INTERVAL,
            partial(self._report, "running"),
            first_after=_HEARTBEAT_INTERVAL,
        )
        while not self._stop.is_set():
            _forward_reload(self._reload, self._request_reload, self._role.connection)
            live = self._children[0].process
            if self._drain and live is not None and live.poll() == 0:
                return 0
            code = self._restart_exited(self._children)
            if code is not None:
                return code
            heartbeat.run_if_due()
            if self.watch is not None:
                self.watch.run_if_due()
            self._stop.wait(_CHILD_POLL)
        return 0

    def _drain_recalls(self) -> int:
        """Wait until all recalls have ended; those that wait for feedback are finalized."""
        while not self._stop.is_set() and _has_open_recalls(self._role.connection):
            code = self._restart_exited(self._children[1:])
            if code is not None:
                return code
            self._report("draining")
            self._stop.wait(_DRAIN_POLL)
        return 0

    def _restart_exited(self, children: list[ChildProcess]) -> int | None:
        """Restart exited children; returns the exit code of one that a restart cannot help."""
        for child in children:
            code = None
            if child.process is not None:
                code = child.process.poll()
            if code is not None:
                if code != RoleLost.exit_code:  # as an erasure has them
                    self._exits.add(child.describe_exit(code))
                if code in _FINAL_EXIT_CODES and child.is_vital:
                    return code
                child.handle_exit(code)
                if self._drain and child.failed_starts >= _MAX_DRAIN_FAILURES:
                    return code if code > 0 else os.EX_SOFTWARE
            if child.process is None and time.monotonic() >= child.restart_at:
                child.start()
        self._exits.store(self._role.connection)
        return None

    def _report(self, state: str) -> None:
        """Store the state of this process and report progress."""
        self._role.heartbeat(state)
        self._progress.report(self._role.connection)


class ExitRecorder:
    """Stores the exits of children, once the database can be reached."""

    def __init__(self) -> None:
        self._unstored: deque[ChildExit] = deque(maxlen=_MAX_UNSTORED_EXITS)

    def add(self, child_exit: ChildExit) -> None:
        """Have an exit stored by the next call of `store`."""
        self._unstored.append(child_exit)

    def store(self, connection: sql.Connection) -> None:
        """Store exits; those that cannot be stored now wait for the next call."""
        with suppress(sql.DatabaseError):
            while self._unstored:
                child_exit = self._unstored[0]
                ProcessExitGateway(connection).record(
                    child_exit.name,
                    child_exit.pid,
                    age=child_exit.age,
                    ended_at=child_exit.ended_at,
                    exit_code=child_exit.code if child_exit.signal is None else None,
                    signal=child_exit.signal,
                )
                self._unstored.popleft()


def _forward_reload(
    reload: threading.Event,
    request_reload: Callable[[sql.Connection], object],
    connection: sql.Connection,
) -> None:
    """Request a reload of the rules if a SIGHUP came."""
    if reload.is_set():
        reload.clear()
        try:
            request_reload(connection)
        except sql.DatabaseError:
            reload.set()  # retried until the database is reachable


def _has_open_recalls(connection: sql.Connection) -> bool:
    try:
        if TaskGateway(connection).count_open():
            return True
        # Loaded here: the command line starts without the ledger.
        from recall.ledger.commands import CommandExecutor

        commands = CommandExecutor(connection, 1)
        if commands.finalize_without_feedback(ignore_deadline=True):
            return True
        return RecalledEventGateway(connection).count_open() > 0
    except sql.DatabaseError:
        return True  # unknown; the next heartbeat reconnects


def watch_parent(
    parent_pid: int | None, stop: threading.Event, grace: float = _SHUTDOWN_TIMEOUT
) -> None:
    """Set `stop` when the parent process exits, and kill this process `grace` seconds later.

    It is killed with its group, as its supervisor would do: it must not outlive a supervisor that
    was killed, even if it hangs. Does nothing without `parent_pid`.
    """
    if parent_pid is None:
        return

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(_PARENT_POLL)
        stop.set()  # before the log event: standard error may be a pipe of the parent and block
        _LOG.error("parent process exited, stopping", action="parent_exited", parent=parent_pid)
        time.sleep(grace)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with its JVM
        os.kill(os.getpid(), signal.SIGKILL)

    start_daemon(watch, "parent")
