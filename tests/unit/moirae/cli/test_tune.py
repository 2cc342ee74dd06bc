"""The table of `moirae rules tune`."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moirae.cli.tune import print_values

VALUE: dict[str, Any] = {
    "values": {"high": 90},
    "is_current": True,
    "alerts_per_day": 1.5,
    "alerts": 3,
    "events": 40,
    "caught": None,
    "error": None,
}


def test_values_are_rows_with_the_current_one_marked(capsys: pytest.CaptureFixture[str]) -> None:
    other = {"values": {"high": 95}, "is_current": False, "error": "too many events"}
    report = {
        "rule": "g/High",
        "from": datetime(2026, 1, 1, tzinfo=UTC),
        "to": datetime(2026, 1, 3, tzinfo=UTC),
        "notes": [],
        "complete": False,
        "values": [VALUE, VALUE | other],
    }
    print_values(report)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "g/High, 2026-01-01 00:00:00Z to 2026-01-03 00:00:00Z (incomplete)"
    cells = [line.split() for line in lines]
    assert ["*", "90", "1.50", "3", "40"] in cells
    assert lines[-1] == "high=95: not evaluated: too many events"


def test_incidents_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {"caught": ["a", "b"], "missed": ["c"], "false_alerts": 4, "delay": 90.0}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    report = {"rule": "g/A", "from": moment, "to": moment, "notes": [], "complete": True}
    print_values({**report, "values": [VALUE | figures]})
    assert "2 1 4 0:01:30" in " ".join(capsys.readouterr().out.split())
