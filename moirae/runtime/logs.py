"""Log lines: to standard error, one an event, each with a stable `action` and ids."""

import os
import sys
from typing import Any, TextIO, cast

import structlog


class _Stderr:
    """Standard error whose reader may go away: what is written then is dropped, and no write raises
    `OSError`.

    A process outlives the terminal or the pipe that it was started with, if only to end in order.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As `TextIO.write`; returns the number of characters."""
        try:
            return self._stream.write(text)
        except OSError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        """As `TextIO.flush`."""
        try:
            self._stream.flush()
        except OSError:
            self._discard()

    def _discard(self) -> None:
        """From now on to nowhere, what is buffered and what child processes write too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def tolerate_closed_stderr() -> None:
    """Let this process and its children write to standard error also when that is closed, now or
    later.
    """
    if sys.stderr is None:  # it was closed before the start: no file may get its number
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 2:
            os.dup2(nowhere, 2)
            os.close(nowhere)
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = cast(TextIO, _Stderr(sys.stderr))


def configure_logging() -> None:
    """Plain lines for people on a terminal, JSON for machines elsewhere. Control characters are
    escaped in both.
    """
    shown = sys.stderr.isatty()
    render = structlog.dev.ConsoleRenderer() if shown else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
