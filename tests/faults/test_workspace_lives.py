"""A workspace lives in processes of its own, which are killed now and then."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.faults.harness import kill
from tests.workspace_machine import Start, run_sequence

pytestmark = pytest.mark.faults

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
DRAIN_TIMEOUT = 900.0  # seconds
# A process is killed before it has run for so long: while it starts, or while it archives.
KILLED_WITHIN = 30.0  # seconds


class ProcessStarter:
    """`moirae up`."""

    def drain(self, root: Path) -> Start:
        done = subprocess.run(
            _command(root, "--drain"),
            capture_output=True,
            text=True,
            timeout=DRAIN_TIMEOUT,
            check=False,
        )
        return Start(done.returncode, done.stderr)

    def start_and_kill(self, root: Path, moment: float) -> None:
        with (root / "up.log").open("ab") as log:
            process = subprocess.Popen(_command(root), stdout=log, stderr=log)
        time.sleep(moment * KILLED_WITHIN)
        up = psutil.Process(process.pid)
        up.suspend()  # it starts no other process meanwhile
        for child in up.children(recursive=True):
            kill(child)
        process.kill()
        process.wait()


def _command(root: Path, *arguments: str) -> list[str]:
    file = str(root / "moirae.yaml")
    return [sys.executable, "-m", "moirae", "up", *arguments, "--workspace", file]


@pytest.mark.timeout(7200)
def test_workspace_goes_on_whatever_changes(spark: SparkSession) -> None:
    run_sequence(ProcessStarter(), SEED, steps=12, spark=spark)
