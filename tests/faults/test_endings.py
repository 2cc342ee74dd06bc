"""Processes are stopped in all ways and at any moment, also during startup: no process remains, and
no data is lost.

`MOIRAE_ENDINGS`: how many times each process is started and stopped.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ending import ENDS, end_one
from tests.faults.harness import RULES, WORKSPACE, Producer, Stage, workspace
from tests.processes import Run

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
RUNS = int(os.environ.get("MOIRAE_ENDINGS", "10"))
# Pairs of signals to a process that starts in a moment.
PAIRS = 200
# Seconds within which each process is ended: it may be starting, or have run for some time.
WITHIN = {"up": 30.0, "live": 25.0, "recall": 15.0, "server": 6.0, "demo": 45.0}

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3000)]


def test_two_signals_at_any_moment_stop_a_process() -> None:
    """All processes of a workspace use the same signal handlers."""
    print(f"seed {SEED}")
    rng, started, slowest = random.Random(SEED), 0, 0.0
    for _ in range(PAIRS):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.signalled"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            ready = rng.random() < 0.7
            if ready:
                assert process.stdout is not None
                process.stdout.readline()
                started += 1
            time.sleep(rng.uniform(0, 0.05))
            began = time.monotonic()
            for number in rng.sample([signal.SIGINT, signal.SIGTERM], 2):
                process.send_signal(number)
                time.sleep(rng.choice([0.0, rng.uniform(0, 0.001)]))
            try:
                output, _ = process.communicate(timeout=20)
            finally:
                process.kill()
            assert not ready or (output, process.returncode) == ("stop\n", 0)
            slowest = max(slowest, time.monotonic() - began)
    print(f"{PAIRS} pairs, {started} of them after the start; the slowest end took {slowest:.2f} s")


@pytest.mark.parametrize("kind", ["up", "live", "recall", "server"])
def test_stopped_workspace_leaves_no_process_and_loses_no_row(kind: str) -> None:
    print(f"seed {SEED}")
    rng = random.Random(f"{SEED} {kind}")
    with workspace(WORKSPACE, RULES) as root:
        producer = Producer(root / "landing" / "cpu", 100, SEED)
        producer.start()
        command = ["up"] if kind == "up" else ["run", kind]
        if kind == "live":
            # As `up` does: rows that are archived before the first rule starts are history.
            command.append("--apply-rules")
        try:
            _end_often(Run(root), [*command, "--workspace", str(root / "moirae.yaml")], kind, rng)
        finally:
            producer.stop()
        system = Stage(root, SEED)
        system.producer = producer
        try:
            system.drain()
            print(system.check())
        finally:
            system.end()


def test_stopped_demo_leaves_no_process() -> None:
    print(f"seed {SEED}")
    rng = random.Random(f"{SEED} demo")
    with workspace("", "") as root:
        directory = root / "demo"
        _end_often(Run(directory), ["demo", "--dir", str(directory)], "demo", rng)


def _end_often(run: Run, arguments: list[str], kind: str, rng: random.Random) -> None:
    ends = [end for end in ENDS if kind != "demo" or end != "parent"]  # it watches nobody
    log = Path(f"{run.directory}.log")
    try:
        for number in range(RUNS):
            end = ends[number % len(ends)]
            after = (
                rng.uniform(0, WITHIN[kind])
                if rng.random() < 0.6
                else rng.uniform(0, WITHIN[kind] / 6)
            )
            took = end_one(run, arguments, end, after, rng, log)
            print(f"{kind}: {end} after {after:.2f} s, nothing left {took:.1f} s later", flush=True)
    finally:
        log.unlink(missing_ok=True)
