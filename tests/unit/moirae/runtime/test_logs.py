"""Log lines: their format, and that nothing in the data drives a terminal or a reader of logs."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from moirae.runtime.logs import (
    LogFormat,
    configure_logging,
    effective_log_format,
    prints_plain_messages,
)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    handlers = logging.getLogger().handlers.copy()
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


def test_json_log_line_is_one_line_of_printable_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging()
    odd = "a\nb\r\x1b[31m\x00\x85\u2028\u202e"
    structlog.get_logger().error("failed", action="x", error=odd)
    (line,) = stderr.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["error"] == odd


def test_text_log_line_escapes_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging(LogFormat.TEXT)
    structlog.get_logger().error("failed", action="x", process="live", error="a b\x1b[31m\u202e\n")
    (line,) = stderr.getvalue().splitlines()
    assert line.endswith(r'Z ERROR   failed  process=live  error="a b\u001b[31m\u202e\n"')
    assert line.isascii()
    assert line.isprintable()


def test_log_format_auto_is_text_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    assert effective_log_format(LogFormat.AUTO) is LogFormat.TEXT
    assert effective_log_format(LogFormat.JSON) is LogFormat.JSON
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert effective_log_format(LogFormat.AUTO) is LogFormat.JSON
    assert effective_log_format(LogFormat.TEXT) is LogFormat.TEXT


def test_log_lines_on_a_terminal_are_json_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    configure_logging(LogFormat.JSON)
    structlog.get_logger().info("started", action="started")
    assert json.loads(terminal.getvalue())["event"] == "started"


def test_warnings_of_libraries_are_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging()
    configure_logging(LogFormat.JSON)  # once more: each line is written once all the same
    logging.getLogger("apscheduler.executors").warning("Run time of job %s was missed", "x")
    logging.getLogger("apscheduler.executors").info("job finished")
    (line,) = stderr.getvalue().splitlines()
    event = json.loads(line)
    assert (event["level"], event["event"]) == ("warning", "Run time of job x was missed")
    assert (event["action"], event["logger"]) == ("library_message", "apscheduler.executors")


@pytest.mark.parametrize("log_format", [LogFormat.TEXT, LogFormat.JSON])
def test_exceptions_logged_by_libraries_take_one_line(
    log_format: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging(log_format)
    try:
        raise ConnectionRefusedError("refused\nby the peer")
    except ConnectionRefusedError:
        logging.exception("Exception while sending command.")
    (line,) = stderr.getvalue().splitlines()
    assert "Exception while sending command." in line
    assert r"ConnectionRefusedError: refused\nby the peer" in line


def test_plain_messages_are_printed_on_terminals_with_text_logs_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    configure_logging()
    assert prints_plain_messages()
    configure_logging(LogFormat.JSON)
    assert not prints_plain_messages()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    configure_logging(LogFormat.TEXT)
    assert not prints_plain_messages()


def test_events_below_the_level_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging(min_level=logging.WARNING)
    structlog.get_logger().info("command executed", action="x")
    structlog.get_logger().warning("retrying", action="x")
    (line,) = stderr.getvalue().splitlines()
    assert json.loads(line)["event"] == "retrying"
    configure_logging()
    structlog.get_logger().info("command executed", action="x")
    assert len(stderr.getvalue().splitlines()) == 2
