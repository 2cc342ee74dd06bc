"""Stops processes of a workspace in all possible ways and reports processes that remain."""

import os
import pty
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from tests.processes import Run

# Two signals, to the process alone; its terminal closes; who started it and asked it to end with it is killed; it is
# killed itself.
End = Literal["signals", "terminal", "parent", "itself"]
ENDS: tuple[End, ...] = get_args(End)
# Seconds until nothing may be left: the processes, their JVMs, PostgreSQL.
GONE = 30.0
# Starts its arguments as `moirae up` starts its children.
PARENT = """
import os, subprocess, sys
subprocess.Popen([*sys.argv[1:], "--parent", str(os.getpid())], start_new_session=True).wait()
"""


def end_one(
    run: Run, arguments: list[str], end: End, after: float, rng: random.Random, log: Path
) -> float:
    """Start `moirae` with `arguments`, end it `after` some seconds; returns the seconds until
    nothing was left.
    """
    command = [sys.executable, "-m", "moirae", *arguments]
    if end == "parent":
        command = [sys.executable, "-c", PARENT, *command]
    ours, theirs = pty.openpty() if end == "terminal" else (None, None)
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if theirs is None else theirs,
            stdout=file if theirs is None else theirs,
            stderr=file if theirs is None else theirs,
            env={**os.environ, **run.environment},
            start_new_session=True,
            preexec_fn=None if theirs is None else lambda: _take_terminal(theirs),
        )
    if theirs is not None:
        os.close(theirs)
    try:
        _wait(ours, after)
        began = time.monotonic()
        if end == "signals":
            first, second = rng.sample([signal.SIGINT, signal.SIGTERM], 2)
            process.send_signal(first)
            time.sleep(rng.choice([0.0, rng.uniform(0, 0.001), rng.uniform(0, 0.5)]))
            process.send_signal(second)
        elif ours is not None:
            os.close(ours)
        else:
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GONE)
        remaining = run.left(began + GONE - time.monotonic())
        assert not remaining, f"{end} after {after:.2f} s: {remaining}; {log.read_text()[-3000:]}"
        return time.monotonic() - began
    finally:
        run.kill()
        process.wait()


def _take_terminal(terminal: int) -> None:
    """In a process that has just been forked as the leader of a session."""
    os.close(os.open(os.ttyname(terminal), os.O_RDWR))  # the first one becomes the session's
    # Inherited from what started the tests: it may itself run under nohup.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _wait(terminal: int | None, seconds: float) -> None:
    """Some time, in which a terminal shows what is written there."""
    deadline = time.monotonic() + seconds
    while (rest := deadline - time.monotonic()) > 0:
        if terminal is not None:
            os.set_blocking(terminal, False)
            with suppress(OSError):
                os.read(terminal, 65536)
        time.sleep(min(rest, 0.05))
