"""Log lines: control characters in data are escaped."""

import io
import json
import sys

import pytest
import structlog

from moirae.runtime import logs


def test_json_log_line_is_one_line_of_printable_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.configure_logging()
    message = "a\nb\r\x1b[31m\x00\x85\u2028\u202e"
    structlog.get_logger().error("failed", action="x", error=message)
    structlog.reset_defaults()
    (line,) = stderr.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["error"] == message


def test_text_log_line_escapes_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.configure_logging("text")
    structlog.get_logger().error("failed", action="x", process="live", error="a b\x1b[31m\u202e\n")
    structlog.reset_defaults()
    (line,) = stderr.getvalue().splitlines()
    assert line.endswith(r'Z ERROR   failed  process=live  error="a b\u001b[31m\u202e\n"')
    assert line.isascii()
    assert line.isprintable()
