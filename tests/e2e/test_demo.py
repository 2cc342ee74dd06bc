"""`moirae demo`: its figures, and its end by Ctrl-C at a terminal."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Run

# A day of history, three seconds of the live phase.
SHORT = """
import sys
from datetime import timedelta
from pathlib import Path
from moirae.demo.run import Phases, run_demo
from moirae.runtime import configure_logging
configure_logging()
phases = Phases(
    history=timedelta(days=1), live=timedelta(seconds=30), live_played=timedelta(seconds=3)
)
sys.exit(run_demo(Path(sys.argv[1]), seed=1, once=True, as_json=True, phases=phases))
"""
ONCE = [sys.executable, "-m", "moirae", "demo", "--once", "-o", "json", "--dir"]
# Of the JSON object that `demo --once` prints: scripts read these names.
KEYS = {
    "accounting": {"read", "archived", "duplicates", "dead_lettered"},
    "events": None,
    "alerts": None,
    "alerts_by_state": None,
    "recalls": {"done", "cancelled", "failed"},
    "similar": {"queries", "precision_at_1", "precision_at_5", "baselines"},
    "latency_ms": {"event_to_alert", "alert_to_first_answer"},
}
LATENCY_KEYS = {
    "event_to_alert": {"p50", "p99", "alerts"},
    "alert_to_first_answer": {"p50", "p99", "answers"},
}
# Seconds until all processes have ended, the JVMs and PostgreSQL among them.
ENDS = 30.0


@pytest.fixture
def run(public_folder: Path) -> Iterator[Run]:
    made = Run(public_folder / "demo")
    yield made
    left = made.left(ENDS)
    made.kill()
    assert not left


def _figures(run: Run, command: list[str]) -> dict[str, Any]:
    """What a demo prints, whose names and accounting are as they should be."""
    done = subprocess.run(
        [*command, str(run.directory)],
        capture_output=True,
        env={**os.environ, **run.environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures: dict[str, Any] = json.loads(done.stdout)
    assert figures.keys() == KEYS.keys()
    for name, keys in KEYS.items():
        assert keys is None or figures[name].keys() == keys
    assert {name: latency.keys() for name, latency in figures["latency_ms"].items()} == LATENCY_KEYS
    account = figures["accounting"]
    assert (
        account["read"]
        == account["archived"] + account["duplicates"] + account["dead_lettered"]
        > 0
    )
    assert figures["alerts"] > 0
    assert figures["recalls"]["failed"] == 0
    return figures


@pytest.mark.timeout(900)
def test_a_short_demo_accounts_for_every_record_and_leaves_no_process(run: Run) -> None:
    figures = _figures(run, [sys.executable, "-c", SHORT])
    assert figures["accounting"]["dead_lettered"] == 0
    assert figures["recalls"]["done"] > 0


@pytest.mark.slow
def test_the_demo_of_make_demo_once(run: Run) -> None:
    figures = _figures(run, ONCE)
    assert figures["similar"]["queries"] > 0
    assert figures["latency_ms"]["event_to_alert"]["alerts"] > 0


@pytest.mark.timeout(900)
def test_ctrl_c_ends_the_demo_with_one_line(run: Run) -> None:
    """Ctrl-C twice, half a second apart, while history is archived and all processes run."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ONCE, str(run.directory)],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, **run.environment},
        preexec_fn=lambda: os.close(
            os.open(os.ttyname(theirs), os.O_RDWR)
        ),  # the terminal of its session
        start_new_session=True,
    )
    os.close(theirs)
    shown = _read_until(ours, b"up.log", 60)
    log = run.directory / "up.log"
    _await(lambda: log.exists() and b"moirae: running" in log.read_bytes(), 300)
    os.write(ours, b"\x03")
    time.sleep(0.5)
    os.write(ours, b"\x03")
    began = time.monotonic()
    shown += _read_until(ours, None, 60)
    told, _ = process.communicate(timeout=60)
    print(f"ended after {time.monotonic() - began:.1f} s")
    assert process.returncode == 130
    assert told == b""
    assert shown.count(b"Interrupted") == 1
    assert b"Traceback" not in shown
    # The terminal shows the demo's own lines only; those of its processes are in the log file.
    assert b"moirae: running" not in shown
    assert b"INFO" not in shown
    assert b"INFO" in log.read_bytes()
    assert not run.left(0.0)
    os.close(ours)


def _await(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _read_until(terminal: int, what: bytes | None, seconds: float) -> bytes:
    """What a terminal shows until it shows something, or None: until its last process has ended."""
    shown, deadline = b"", time.monotonic() + seconds
    with suppress(OSError):  # nobody has it open any more
        while what is None or what not in shown:
            assert time.monotonic() < deadline, shown[-3000:]
            shown += os.read(terminal, 65536)
    return shown
