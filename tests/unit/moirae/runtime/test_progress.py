"""A progress bar and log lines on one terminal, checked with a pseudo-terminal."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest

pytestmark = pytest.mark.processes

# Advances a progress bar and logs at each step; prints once to standard error and standard output.
_PROGRAM = """
import sys, time
import structlog
from rich.console import Console
from moirae.runtime import open_progress_bar
from moirae.runtime.logs import configure_logging
from moirae.runtime.standard_streams import tolerate_closed_stderr
from moirae.runtime.logs import LogFormat
tolerate_closed_stderr()
configure_logging(LogFormat(sys.argv[1]))
with open_progress_bar(Console(stderr=True)) as progress:
    task = progress.add_task("reading input", total=4)
    for number in range(4):
        progress.update(task, completed=number, refresh=True)
        structlog.get_logger().info("step finished", action="step", number=number, note="x" * 200)
        progress.refresh()
        if number == 1:
            print("a message", file=sys.stderr)
            print("a result")
structlog.get_logger().info("finished", action="finished")
"""
_CONTROL_SEQUENCE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+")


def _run_on_terminal(log_format: str) -> tuple[str, str]:
    """What the program writes to the terminal of its standard error, and its standard output."""
    terminal, terminal_of_program = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, log_format],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal_of_program,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "PYTHONUNBUFFERED": "1"},
    )
    os.close(terminal_of_program)
    written = b""
    with suppress(OSError):  # EIO: the program has exited
        while data := os.read(terminal, 65536):
            written += data
    os.close(terminal)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, written.decode()
    return written.decode(), output.decode()


def _screen_lines(written: str) -> list[str]:
    """The non-empty lines that a terminal of unlimited width shows at the end."""
    lines = [""]
    row = column = 0
    for match in _CONTROL_SEQUENCE.finditer(written):
        text = match[0]
        if text == "\r":
            column = 0
        elif text == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif match[2] == "A":
            row -= int(match[1] or 1)
        elif match[2] == "K":
            assert match[1] == "2"  # the whole line
            lines[row] = ""
        elif match[2] is None:
            before = lines[row].ljust(column)
            lines[row] = before[:column] + text + before[column + len(text) :]
            column += len(text)
        else:
            assert match[2] in "mhl"  # style, visibility of the cursor
    return [line for line in lines if line]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_lines_are_printed_whole_above_the_progress_bar(log_format: str) -> None:
    written, output = _run_on_terminal(log_format)
    assert "reading input" in written
    assert output == "a result\n"
    lines = _screen_lines(written)
    assert lines.pop(2) == "a message"
    assert len(lines) == 5
    for number, line in enumerate(lines[:4]):
        if log_format == "json":
            event = json.loads(line)
            assert (event["event"], event["number"]) == ("step finished", number)
        else:
            message = rf"step finished  number={number}  note=x{{200}}"
            assert re.fullmatch(rf"\d\d:\d\d:\d\dZ INFO    {message}", line)
    assert "finished" in lines[4]


def test_progress_bar_is_not_drawn_where_no_terminal_is() -> None:
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "auto"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert process.stdout == "a result\n"
    messages = process.stderr.splitlines()
    assert messages.pop(2) == "a message"
    assert [json.loads(line)["action"] for line in messages] == ["step"] * 4 + ["finished"]
