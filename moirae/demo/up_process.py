"""`moirae up` of the demo's workspace: a child process whose output goes to a log file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moirae.errors import MoiraeError
from moirae.runtime.logs import LogFormat, escape_line

# Seconds for `moirae up` to stop its processes, and the database if it is its last user.
_STOP_TIMEOUT = 40.0
_MAX_ERROR_LINES = 15  # lines of the log in an error message
_MAX_LINE_LENGTH = 500  # characters of each
_TAIL_SIZE = 64 * 1024  # bytes at the end of the log that are searched for these lines


class UpProcess:
    """A running `moirae up` and its log file."""

    def __init__(self, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self._process = process
        self._log_file = log_file

    def check_running(self) -> None:
        """Raise `MoiraeError` with the end of the log if the process has exited."""
        code = self._process.poll()
        if code is not None:
            raise self.error(f"`moirae up` exited with exit code {code}")

    def has_succeeded(self) -> bool:
        """Whether the process has exited without error; raises `MoiraeError` for an error."""
        if self._process.poll() == 0:
            return True
        self.check_running()
        return False

    def error(self, fact: str) -> MoiraeError:
        """An error that names the log file and contains its last lines."""
        lines = _read_last_lines(self._log_file)
        if not lines:
            return MoiraeError(f"{self._log_file}: {fact}; the log is empty")
        text = "".join(f"\n  {line}" for line in lines)
        return MoiraeError(f"{self._log_file}: {fact}; last lines of the log:{text}")


@contextmanager
def run_up(
    workspace: Path, log_file: Path, log_format: LogFormat, *options: str
) -> Iterator[UpProcess]:
    """Run `moirae up` for a workspace file and stop it at the end; output is appended to the log.

    It has a session of its own: Ctrl-C at the terminal reaches the demo only, which stops it.
    """
    command = [sys.executable, "-m", "moirae", "up", *options]
    command += ["--workspace", str(workspace), "--log-format", log_format]
    command += ["--parent", str(os.getpid())]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield UpProcess(process, log_file)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()  # its own children stop by themselves when it is gone
            process.wait()


def _read_last_lines(file: Path) -> list[str]:
    """The last lines in ASCII without control characters; long ones are cut."""
    with file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(size - _TAIL_SIZE, 0))
        tail = log.read().decode("utf-8", "replace")
    lines = []
    for line in tail.splitlines()[-_MAX_ERROR_LINES:]:
        text = escape_line(line)
        if len(text) > _MAX_LINE_LENGTH:
            text = text[:_MAX_LINE_LENGTH] + " ..."
        lines.append(text)
    return lines
