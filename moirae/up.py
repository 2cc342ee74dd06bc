"""`moirae up`: starts the workspace's processes, and starts them again when they fall."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
import structlog
from psycopg import Connection

import sql
from moirae import database, storage
from moirae.deployments.registry import Registry
from moirae.process import Kept
from moirae.settings import Settings
from moirae.telling import Telling
from recall.commands import Commands

_LOG = structlog.get_logger()

# Seconds: until a child that was told to end is killed; pauses before it is started again, growing while it falls.
_GRACE = 20.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
# Before one that is not vital is tried again, where only somebody's doing would help: its port may be free by then.
_HOPELESS_PAUSE = 30.0
# A child that ran this long fell for a new reason.
_STEADY = 20.0
# Exit codes that another start would not change: the message says what to do.
_FINAL = frozenset({1, 2})


@dataclass
class Child:
    """A process of the workspace, by the arguments of `moirae`."""

    name: str
    arguments: Sequence[str]
    once: Sequence[str] = ()  # added at its first start only
    vital: bool = True
    """Without it the others end too, when another start would not help."""
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = _FIRST_PAUSE
    due: float = field(default_factory=time.monotonic)

    def start(self) -> None:
        """Start it in a process group of its own: a Ctrl-C at the terminal is for us alone."""
        command = [sys.executable, "-m", "moirae", *self.arguments, *self.once, "--parent", str(os.getpid())]
        self.once = ()
        self.process = subprocess.Popen(command, start_new_session=True)
        self.started = time.monotonic()

    def fell(self, code: int) -> None:
        """It ended by itself: when to start it again."""
        self._sweep()
        now = time.monotonic()
        self.pause = _FIRST_PAUSE if now - self.started > _STEADY else min(self.pause * 2, _LONGEST_PAUSE)
        if code in _FINAL:
            self.pause = _HOPELESS_PAUSE
        self.due, self.process = now + self.pause, None
        _LOG.error("process fell", action="child_fell", process=self.name, code=code, again_in=self.pause)

    def end(self, deadline: float) -> None:
        """Ask it to end; after the deadline, end it."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _LOG.warning("process killed", action="child_killed", process=self.name)
        self._sweep()
        self.process.wait()

    def _sweep(self) -> None:
        """What is left of its group, its JVM above all, ends too."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def up(settings: Settings, drain: bool) -> int:
    """Run the workspace until a signal ends it, or, to drain, until all input is settled. Returns an exit code."""
    storage.check(settings)
    role = Kept(partial(database.connect, settings, "up"), "up", patience=0.0)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reload = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: reload.set())
    workspace = ["--workspace", str(settings.file)]
    live = Child("live", ["run", "live", *workspace, *(["--drain"] if drain else [])], ["--apply-rules"])
    recall = ["run", "recall", *workspace]
    children = [live, *(Child("recall", recall, vital=False) for _ in range(settings.recall.processes))]
    if not drain:
        children.append(Child("server", ["run", "server", *workspace], vital=False))
    role.beat("running")
    telling = Telling(drain)
    try:
        code = _supervise(children, stop, role, drain, reload, telling)
        if drain and code == 0 and not stop.is_set():
            code = _await_recalls(children[1:], stop, role, telling)
        return code
    finally:
        deadline = time.monotonic() + _GRACE
        for child in children:
            child.end(deadline)
        role.end()


def _await_recalls(children: list[Child], stop: threading.Event, role: Kept, telling: Telling) -> int:
    """Input is settled: until no recall goes on. Nobody is waited for: those that wait for feedback end."""
    while not stop.is_set() and _recalls_go_on(role.connection):
        code = _look_after(children)
        if code is not None:
            return code
        role.beat("draining")
        telling.look(role.connection)
        stop.wait(0.2)
    return 0


def _recalls_go_on(connection: Connection[Any]) -> bool:
    try:
        row = connection.execute(sql.load("recalls")["open"]).fetchone()
        assert row is not None
        return row[0] > 0 or Commands(connection, 1).expire(everything=True)
    except psycopg.Error:
        return True  # as far as anybody knows; the next sign of life connects again


def _look_after(children: list[Child]) -> int | None:
    """Start what has fallen; returns the exit code of a child that another start would not help."""
    for child in children:
        code = None if child.process is None else child.process.poll()
        if code is not None and code in _FINAL and child.vital:
            return code
        if code is not None:
            child.fell(code)
        if child.process is None and time.monotonic() >= child.due:
            child.start()
    return None


def _pass_on(reload: threading.Event, connection: Connection[Any]) -> None:
    """Who signals the supervisor wants its rule files looked at."""
    if reload.is_set():
        reload.clear()
        try:
            Registry(connection).ask_reload()
        except psycopg.Error:
            reload.set()  # until the database is back


def _supervise(
    children: list[Child],
    stop: threading.Event,
    role: Kept,
    drain: bool,
    reload: threading.Event,
    telling: Telling,
) -> int:
    beat = time.monotonic()
    while not stop.is_set():
        _pass_on(reload, role.connection)
        live = children[0].process
        if drain and live is not None and live.poll() == 0:
            return 0
        code = _look_after(children)
        if code is not None:
            return code
        if time.monotonic() - beat > 2.0:
            beat = time.monotonic()
            role.beat("running")
            telling.look(role.connection)
        stop.wait(0.1)
    return 0


def watch_parent(parent: int | None, stop: threading.Event) -> None:
    """End with the supervisor that started this process, however that ended."""
    if parent is None:
        return

    def watch() -> None:
        while not stop.wait(1.0):
            if os.getppid() != parent:
                stop.set()  # first: what was told went to the supervisor's own pipe, which may be gone too
                _LOG.error("supervisor is gone", action="parent_gone", parent=parent)

    threading.Thread(target=watch, daemon=True, name="parent").start()
