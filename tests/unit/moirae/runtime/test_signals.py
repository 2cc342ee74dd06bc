"""Signals in any order and at any moment, terminals that close, standard error that is gone."""

import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.processes

SIGNALLED = [sys.executable, "-m", "tests.signalled"]
LOGGING = """
import sys, time
import structlog
from moirae.runtime import logs, standard_streams
standard_streams.tolerate_closed_stderr()
logs.configure_logging()
sys.stdin.readline()
for number in range(3):
    structlog.get_logger().info("something", action="something", number=number)
    print("something", file=sys.stderr, flush=True)
print("written", flush=True)
"""


@contextmanager
def _start_process(
    terminal: int | None = None, nohup: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for signals, the leader of a session; `terminal`: the session's."""

    def prepare() -> None:
        if terminal is not None:
            os.close(
                os.open(os.ttyname(terminal), os.O_RDWR)
            )  # the first one that a session opens becomes its own
        # Inherited from what started the tests: it may itself run under nohup.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

    with subprocess.Popen(
        SIGNALLED, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=prepare
    ) as process:
        try:
            assert _read_line(process) == "ready"
            yield process
        finally:
            process.kill()


def _read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _pause(seconds: float) -> None:
    """Shorter than `time.sleep` can."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@pytest.mark.parametrize("seed", range(1))
def test_burst_of_signals_never_blocks_a_process(seed: int) -> None:
    rng = random.Random(seed)
    with _start_process() as process:
        for _ in range(2000):
            process.send_signal(signal.SIGHUP)
            _pause(rng.uniform(0, 0.0002))
        for number in rng.sample([signal.SIGINT, signal.SIGTERM], 2):
            process.send_signal(number)
            _pause(rng.uniform(0, 0.0002))
        lines = process.communicate(timeout=20)[0].split()
        assert lines[-1] == "stop"
        # A burst may end before the main thread has had a turn: then there is no reload.
        assert lines.count("reload") == len(lines) - 1
        assert process.returncode == 0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_two_signals_end_a_process_whatever_their_order(seed: int) -> None:
    rng = random.Random(seed)
    with _start_process() as process:
        _pause(rng.uniform(0, 0.01))
        for number in rng.sample([signal.SIGINT, signal.SIGTERM], 2):
            process.send_signal(number)
            _pause(rng.uniform(0, 0.0002))
        assert _read_line(process) == "stop"
        assert process.wait(20) == 0


@pytest.mark.slow
def test_sighup_reloads_without_a_terminal() -> None:
    with _start_process() as process:
        process.send_signal(signal.SIGHUP)
        assert _read_line(process) == "reload"
        time.sleep(0.5)
        assert process.poll() is None


def test_sighup_reloads_while_the_terminal_is_open() -> None:
    controller, terminal_end = pty.openpty()
    with _start_process(terminal_end) as process:
        process.send_signal(signal.SIGHUP)
        assert _read_line(process) == "reload"
        time.sleep(0.5)
        assert process.poll() is None
    os.close(terminal_end)
    os.close(controller)


def test_closed_terminal_stops_its_processes() -> None:
    controller, terminal_end = pty.openpty()
    with _start_process(terminal_end) as process:
        os.close(terminal_end)
        os.close(controller)
        assert process.communicate(timeout=20)[0].split()[-1] == "stop"


def test_process_under_nohup_outlives_its_terminal() -> None:
    controller, terminal_end = pty.openpty()
    with _start_process(terminal_end, nohup=True) as process:
        os.close(terminal_end)
        os.close(controller)
        time.sleep(0.5)
        process.send_signal(signal.SIGHUP)
        assert _read_line(process) == "reload"
        time.sleep(0.5)
        assert process.poll() is None


@pytest.mark.parametrize(
    "stderr",
    [
        "closed before",
        pytest.param("closed pipe", marks=pytest.mark.slow),
        pytest.param("closed terminal", marks=pytest.mark.slow),
    ],
)
def test_process_survives_writing_to_a_closed_stderr(stderr: str) -> None:
    controller, terminal_end = pty.openpty() if stderr == "closed terminal" else os.pipe()
    command = [sys.executable, "-c", LOGGING]
    if stderr == "closed before":
        command = ["sh", "-c", 'exec "$0" "$@" 2>&-', *command]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=terminal_end,
        text=True,
        start_new_session=True,
    ) as process:
        os.close(terminal_end)
        os.close(controller)
        output, _ = process.communicate("go on\n", timeout=60)
        assert output == "written\n"
        assert process.returncode == 0
