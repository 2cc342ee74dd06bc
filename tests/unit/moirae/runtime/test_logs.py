"""Nothing in the data drives a terminal or a reader of logs."""

import io
import json
import sys

import pytest
import structlog

from moirae.runtime import logs


def test_a_log_line_is_one_line_of_plain_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    logs.configure_logging()
    odd = "a\nb\r\x1b[31m\x00\x85\u2028\u202e"
    structlog.get_logger().error("failed", action="x", error=odd)
    structlog.reset_defaults()
    (line,) = written.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["error"] == odd


def test_a_text_log_line_escapes_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.configure_logging("text")
    structlog.get_logger().error("failed", action="x", process="live", error="a b\x1b[31m\u202e\n")
    structlog.reset_defaults()
    (line,) = stderr.getvalue().splitlines()
    assert line.endswith(r'Z ERROR   failed  process=live  error="a b\u001b[31m\u202e\n"')
    assert line.isascii()
    assert line.isprintable()
