"""`moirae demo`: its figures, and its end by Ctrl-C at a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time
import uuid
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
from moirae.runtime.logs import configure_logging
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
    "forecast": None,
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
    # A directory of its own: a log of an earlier run is not to be taken for this one's.
    demo_run = Run(public_folder / f"demo-{uuid.uuid4().hex}")
    yield demo_run
    remaining = demo_run.left(ENDS)
    demo_run.kill()
    assert not remaining


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-c", SHORT], id="short"),
        pytest.param(ONCE, id="once"),
    ],
)
@pytest.mark.timeout(900)
def test_ctrl_c_ends_the_demo_with_one_line(run: Run, command: list[str]) -> None:
    """Ctrl-C twice, half a second apart, while history is archived and all processes run."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, str(run.directory)],
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
    log = run.directory / "up.log"
    shown = _read_while(ours, lambda: not _has_line(log, b"workspace is running"), 300)
    assert b"up.log" in shown
    os.write(ours, b"\x03")
    time.sleep(0.5)
    os.write(ours, b"\x03")
    began = time.monotonic()
    shown += _read_while(ours, lambda: True, 60)
    output, _ = process.communicate(timeout=60)
    print(f"ended after {time.monotonic() - began:.1f} s")
    assert process.returncode == 130
    assert output == b""
    assert shown.count(b"Interrupted") == 1
    assert b"Traceback" not in shown
    # The terminal shows the demo's own lines only; those of its processes are in the log file.
    assert b"workspace is running" not in shown
    assert b"INFO" not in shown
    assert b"INFO" in log.read_bytes()
    assert not run.left(0.0)
    os.close(ours)


def _has_line(file: Path, text: bytes) -> bool:
    return file.exists() and text in file.read_bytes()


def _read_while(terminal: int, condition: Callable[[], bool], seconds: float) -> bytes:
    """What a terminal shows while a condition holds, or until its last process has exited."""
    shown = b""
    deadline = time.monotonic() + seconds
    with suppress(OSError):  # EIO: no process has it open
        while condition():
            assert time.monotonic() < deadline, shown[-3000:]
            readable, _, _ = select.select([terminal], [], [], 0.1)
            if readable:
                shown += os.read(terminal, 65536)
    return shown
