"""Logging: one line on standard error for each event, as text or JSON."""

import json
import os
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO, cast

import structlog

LogFormat = Literal["auto", "text", "json"]
"""`auto`: text on a terminal, JSON elsewhere."""

# Keys of an event that a text line does not repeat as key=value.
_TEXT_LINE_KEYS = frozenset({"timestamp", "level", "event", "action", "exception"})


class _Stderr:
    """Standard error that may be closed at the other end: later output is dropped, no write raises.

    A process outlives the terminal or pipe that it was started with, at least for its shutdown.
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
        """Send buffered and later output to /dev/null, also that of child processes."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def tolerate_closed_stderr() -> None:
    """Let this process and its children write to standard error even if it is closed."""
    if sys.stderr is None:  # closed before the start: no other file may get descriptor 2
        null = os.open(os.devnull, os.O_WRONLY)
        if null != 2:
            os.dup2(null, 2)
            os.close(null)
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = cast(TextIO, _Stderr(sys.stderr))


def configure_logging(log_format: LogFormat = "auto") -> None:
    """Write log events to standard error. Control characters are escaped in both formats."""
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    renderer = _render_text if as_text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _render_text(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """One line: time (UTC), level, message, key=value pairs; then the traceback, if any."""
    time = event["timestamp"][11:19]
    level = event["level"].upper()
    parts = [f"{time}Z {level:<7} {_escape(str(event['event']))}"]
    for key, value in event.items():
        if key not in _TEXT_LINE_KEYS:
            parts.append(f"{key}={_quote(value)}")
    lines = ["  ".join(parts)]
    for line in event.get("exception", "").splitlines():
        lines.append(f"    {_escape(line)}")
    return "\n".join(lines)


def _quote(value: Any) -> str:
    """A value as one word, or in double quotes, in ASCII."""
    text = str(value)
    is_word = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    if text and is_word:
        return text
    return json.dumps(text)


def _escape(text: str) -> str:
    """Text in ASCII without control characters."""
    if text.isascii() and text.isprintable():
        return text
    return json.dumps(text)[1:-1]
