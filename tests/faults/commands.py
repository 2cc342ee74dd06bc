"""Commands of a workspace that are run to their end, or killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path


def _start(root: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "moirae", *arguments]
    # With a group of its own: what it has started, such as pg_dump, ends with it.
    return subprocess.Popen(
        [*command, "--workspace", str(root / "moirae.yaml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_command(root: Path, *arguments: str, timeout: float = 600) -> str:
    """Run a command that must succeed; return its output."""
    process = _start(root, *arguments)
    output, errors = process.communicate(timeout=timeout)
    assert process.returncode == 0, errors[-3000:] + output[-3000:]
    return output


def kill_command(root: Path, seconds: float, *arguments: str) -> bool:
    """Run a command and kill it after some seconds; whether it had ended before."""
    process = _start(root, *arguments)
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False
    assert process.returncode == 0, errors[-3000:]
    return True
