"""Logging: one line on standard error for each event, as text or JSON."""

import json
import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TextIO, cast

import structlog


class LogFormat(StrEnum):
    """Formats of log lines."""

    AUTO = "auto"
    """Text if standard error is a terminal, else JSON."""
    TEXT = "text"
    JSON = "json"


# Prints one log line in place of standard error while a progress bar is on the same terminal.
_print_line: Callable[[str], None] | None = None

# The format of this process's log lines.
_log_format = LogFormat.TEXT

# Keys of an event that a text line does not repeat as key=value.
_TEXT_LINE_KEYS = frozenset({"timestamp", "level", "event", "action", "exception"})


class _LogStream:
    """Standard error for log lines: `print_logs_with` redirects them while it is active."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write a whole log line with its line break."""
        if _print_line is not None:
            _print_line(text.removesuffix("\n"))
        else:
            self._stream.write(text)

    def flush(self) -> None:
        """As `TextIO.flush`."""
        self._stream.flush()


def effective_log_format(log_format: LogFormat) -> LogFormat:
    """The format itself; for `auto` the one that standard error calls for."""
    if log_format is not LogFormat.AUTO:
        return log_format
    if sys.stderr.isatty():
        return LogFormat.TEXT
    return LogFormat.JSON


def prints_plain_messages() -> bool:
    """Whether messages to the user, which are not log events, may be printed on standard error.

    It is a terminal, and log lines are text.
    """
    return _log_format is LogFormat.TEXT and sys.stderr.isatty()


def configure_logging(
    log_format: LogFormat = LogFormat.AUTO, min_level: int = logging.INFO
) -> None:
    """Write log events to standard error. Control characters are escaped in both formats.

    Libraries that use the standard `logging` are logged from WARNING on, without tracebacks.
    """
    global _log_format
    _log_format = effective_log_format(log_format)
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if _log_format is LogFormat.TEXT:
        renderer = _render_text
    level_and_time: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # One write for each line: processes that share a terminal or file do not mix their lines.
    stream = cast(TextIO, _LogStream(sys.stderr))
    structlog.configure(
        processors=[*level_and_time, structlog.processors.format_exc_info, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(min_level),
        logger_factory=structlog.WriteLoggerFactory(stream),
    )
    handler = _LibraryHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_describe_library_record, *level_and_time],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    for previous in root.handlers.copy():
        if isinstance(previous, _LibraryHandler):
            root.removeHandler(previous)
    root.addHandler(handler)


class _LibraryHandler(logging.StreamHandler[TextIO]):
    """Writes what libraries log by the standard `logging`, from WARNING on."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setLevel(logging.WARNING)


def _describe_library_record(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Add action and logger; replace the traceback of an exception by its message."""
    event["action"] = "library_message"
    event["logger"] = event["_record"].name
    exception_info = event.pop("exc_info", None)
    if exception_info and exception_info[1] is not None:
        error = exception_info[1]
        event["error"] = f"{type(error).__name__}: {error}"
    return event


@contextmanager
def print_logs_with(print_line: Callable[[str], None]) -> Iterator[None]:
    """Hand each log line, without its line break, to a function that keeps a progress bar whole."""
    global _print_line
    previous = _print_line
    _print_line = print_line
    try:
        yield
    finally:
        _print_line = previous


def _render_text(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """One line: time (UTC), level, message, key=value pairs; then the traceback, if any."""
    time = event["timestamp"][11:19]
    level = event["level"].upper()
    parts = [f"{time}Z {level:<7} {escape_line(str(event['event']))}"]
    for key, value in event.items():
        if key not in _TEXT_LINE_KEYS:
            parts.append(f"{key}={_quote(value)}")
    lines = ["  ".join(parts)]
    for line in event.get("exception", "").splitlines():
        lines.append(f"    {escape_line(line)}")
    return "\n".join(lines)


def _quote(value: Any) -> str:
    """A value as one word, or in double quotes, in ASCII."""
    text = str(value)
    is_word = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    if text and is_word:
        return text
    return json.dumps(text)


def escape_line(text: str) -> str:
    """A line in ASCII without control characters."""
    if text.isascii() and text.isprintable():
        return text
    return json.dumps(text)[1:-1]
