"""`moirae up`: starts the workspace's processes, and starts them again when they fall."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
import structlog
from psycopg import Connection

import sql
from moirae.config import Settings
from moirae.runtime import database, storage
from moirae.runtime.progress import ProgressReporter
from moirae.runtime.roles import ReconnectingRole
from moirae.runtime.signals import Signals

_LOG = structlog.get_logger()

# Seconds: until a child that was told to end is killed; pauses before it is started again, growing
# while it falls.
_SHUTDOWN_TIMEOUT = 20.0
# Seconds that `up` has beyond that, when what started it is gone, to end its children.
_SPARE = 5.0
_PARENT_POLL = 1.0  # seconds
_FIRST_RESTART_DELAY, _MAX_RESTART_DELAY = 0.5, 5.0
# Before one that is not vital is tried again, where only somebody's doing would help: its port may
# be free by then.
_FINAL_RESTART_DELAY = 30.0
# A child that ran this long fell for a new reason.
_STABLE_AFTER = 20.0
# Exit codes that another start would not change: the message says what to do.
_FINAL_EXIT_CODES = frozenset({1, 2})


@dataclass
class ChildProcess:
    """A process of the workspace, by the arguments of `moirae`."""

    name: str
    arguments: Sequence[str]
    first_start_arguments: Sequence[str] = ()  # added at its first start only
    is_vital: bool = True
    """Without it the others end too, when another start would not help."""
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restart_delay: float = _FIRST_RESTART_DELAY
    restart_at: float = field(default_factory=time.monotonic)

    def start(self) -> None:
        """Start it in a process group of its own: a Ctrl-C at the terminal is for us alone."""
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

    def handle_exit(self, code: int) -> None:
        """It ended by itself: when to start it again."""
        self._kill_process_group()
        now = time.monotonic()
        self.restart_delay = (
            _FIRST_RESTART_DELAY
            if now - self.started_at > _STABLE_AFTER
            else min(self.restart_delay * 2, _MAX_RESTART_DELAY)
        )
        if code in _FINAL_EXIT_CODES:
            self.restart_delay = _FINAL_RESTART_DELAY
        self.restart_at, self.process = now + self.restart_delay, None
        _LOG.error(
            "process fell",
            action="child_fell",
            process=self.name,
            code=code,
            again_in=self.restart_delay,
        )

    def terminate(self) -> None:
        """Ask it to end."""
        if self.process is not None:
            self.process.terminate()

    def wait_or_kill(self, deadline: float) -> None:
        """Wait until it has ended; after the deadline, kill it."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _LOG.warning("process killed", action="child_killed", process=self.name)
        self._kill_process_group()
        self.process.wait()

    def _kill_process_group(self) -> None:
        """What is left of its group, its JVM above all, ends too."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def run_supervisor(
    settings: Settings,
    drain: bool,
    request_reload: Callable[[Connection[Any]], object],
    parent: int | None = None,
) -> int:
    """Run the workspace until a signal ends it, or, to drain, until all input is settled. Returns
    an exit code.

    `parent`: the process with which this one ends.
    """
    storage.check_storage(settings)
    role = ReconnectingRole(partial(database.connect_database, settings, "up"), "up", timeout=0.0)
    signals = Signals(reloads=True)
    stop, reload = signals.stop, signals.reload
    watch_parent(parent, stop, _SHUTDOWN_TIMEOUT + _SPARE)
    workspace = ["--workspace", str(settings.file)]
    live = ChildProcess(
        "live", ["run", "live", *workspace, *(["--drain"] if drain else [])], ["--apply-rules"]
    )
    recall = ["run", "recall", *workspace]
    children = [
        live,
        *(ChildProcess("recall", recall, is_vital=False) for _ in range(settings.recall.processes)),
    ]
    if not drain:
        children.append(ChildProcess("server", ["run", "server", *workspace], is_vital=False))
    role.heartbeat("running")
    telling = ProgressReporter(drain)
    try:
        code = _supervise(children, stop, role, drain, reload, request_reload, telling)
        if drain and code == 0 and not stop.is_set():
            code = _drain_recalls(children[1:], stop, role, telling)
        return code
    finally:
        deadline = time.monotonic() + _SHUTDOWN_TIMEOUT
        for child in children:
            child.terminate()
        for child in children:
            child.wait_or_kill(deadline)
        role.mark_ended()
        role.connection.close()


def _drain_recalls(
    children: list[ChildProcess],
    stop: threading.Event,
    role: ReconnectingRole,
    telling: ProgressReporter,
) -> int:
    """Input is settled: until no recall goes on. Nobody is waited for: those that wait for feedback
    end.
    """
    while not stop.is_set() and _has_open_recalls(role.connection):
        code = _restart_exited(children)
        if code is not None:
            return code
        role.heartbeat("draining")
        telling.report(role.connection)
        stop.wait(0.2)
    return 0


def _has_open_recalls(connection: Connection[Any]) -> bool:
    from recall.ledger import CommandExecutor

    try:
        row = connection.execute(sql.load("recalls")["open"]).fetchone()
        assert row is not None
        return row[0] > 0 or CommandExecutor(connection, 1).finalize_without_feedback(
            ignore_deadline=True
        )
    except psycopg.Error:
        return True  # as far as anybody knows; the next sign of life connects again


def _restart_exited(children: list[ChildProcess]) -> int | None:
    """Start what has fallen; returns the exit code of a child that another start would not help."""
    for child in children:
        code = None if child.process is None else child.process.poll()
        if code is not None and code in _FINAL_EXIT_CODES and child.is_vital:
            return code
        if code is not None:
            child.handle_exit(code)
        if child.process is None and time.monotonic() >= child.restart_at:
            child.start()
    return None


def _forward_reload(
    reload: threading.Event,
    request_reload: Callable[[Connection[Any]], object],
    connection: Connection[Any],
) -> None:
    """Who signals the supervisor wants its rule files looked at."""
    if reload.is_set():
        reload.clear()
        try:
            request_reload(connection)
        except psycopg.Error:
            reload.set()  # until the database is back


def _supervise(
    children: list[ChildProcess],
    stop: threading.Event,
    role: ReconnectingRole,
    drain: bool,
    reload: threading.Event,
    request_reload: Callable[[Connection[Any]], object],
    telling: ProgressReporter,
) -> int:
    beat = time.monotonic()
    while not stop.is_set():
        _forward_reload(reload, request_reload, role.connection)
        live = children[0].process
        if drain and live is not None and live.poll() == 0:
            return 0
        code = _restart_exited(children)
        if code is not None:
            return code
        if time.monotonic() - beat > 2.0:
            beat = time.monotonic()
            role.heartbeat("running")
            telling.report(role.connection)
        stop.wait(0.1)
    return 0


def watch_parent(
    parent_pid: int | None, stop: threading.Event, grace: float = _SHUTDOWN_TIMEOUT
) -> None:
    """End with the process that started this one, however that ended.

    `grace`: seconds to end in order. Then this process is killed with its group, as its supervisor
    would have done: it must not outlive a supervisor that was killed, whatever holds it up.
    """
    if parent_pid is None:
        return

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(_PARENT_POLL)
        stop.set()  # first: what was told went to the supervisor's own pipe, which may be gone too
        _LOG.error("supervisor is gone", action="parent_gone", parent=parent_pid)
        time.sleep(grace)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with its JVM
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="parent").start()
