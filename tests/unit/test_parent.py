"""Processes of tests end with who has started them."""

import subprocess
import sys
import time

import psutil
import pytest

pytestmark = pytest.mark.processes

# Starts a process that would sleep for a minute, and prints its ID.
PARENT = """
import subprocess, sys, time
from tests.parent import end_with_parent
command = [sys.executable, "-c", "import time; time.sleep(60)"]
print(subprocess.Popen(command, preexec_fn=end_with_parent).pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a feature of Linux")
def test_process_ends_with_its_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    deadline = time.monotonic() + 10
    while _is_running(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_running(process: psutil.Process) -> bool:
    """Its new parent may not have reaped it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
