"""The report of a back-test as text."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moirae.cli.backtest_output import print_report

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 3, tzinfo=UTC)
ALERT: dict[str, Any] = {
    "id": "0123456789",
    "state": "firing",
    "labels": {"alertname": "High", "host": "a"},
    "fired_at": START,
    "ends_at": None,
    "events": 2,
    "is_hidden": False,
}


def test_report_shows_counts_alerts_changes_and_incidents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    statistics = {
        "alerts": 1,
        "by_day": {"2026-01-01": 1, "2026-01-02": 0},
        "by_hour": [1, *[0] * 23],
        "by_label": {"alertname": {"High": 1}, "host": {"a": 1, "b": 2}},
        "quietest": (START, END, 0),
        "noisiest": (START, START, 1),
    }
    new = {**ALERT, "rows": {"cpu": "SELECT * FROM cpu"}}
    change = {"version": "abcdefghij", "unchanged": 3, "new": [new], "gone": [], "moved": []}
    tested = {
        "rule": "g/High",
        "notes": [],
        "complete": True,
        "from": START,
        "to": END,
        "events": 4,
        "hidden": 1,
        "statistics": statistics,
        "alerts": [ALERT, ALERT | {"is_hidden": True}],
        "late_rows": [{"id": "0123456789", "starts_at": START, "rows": {"norm": 3}}],
        "change": change,
    }
    untested = {"rule": "g/Low", "notes": ["not tested: why"], "complete": False}
    incidents = {
        "caught": [{"id": "one", "delay": 90.0, "alerts": ["0123456789"]}],
        "missed": [{"id": "two"}],
        "false_alerts": [],
    }
    print_report({"complete": False, "rules": [tested, untested], "incidents": incidents})
    output = capsys.readouterr().out
    for text in (
        "4 events, 1 alert fired, 1 hidden by where",
        f"2026-01-01      1 {'#' * 40}\n  2026-01-02      0\n",
        "longest quiet span: 2026-01-01 00:00:00Z to 2026-01-03 00:00:00Z",
        "by host: a 1, b 2",
        "by hour (UTC, from 0): 1 0 0",
        "norm 3",
        '+ 01234567 moirae query "SELECT * FROM cpu"',
        "01234567  firing",
        "compared with version abcdefgh: 1 new, 0 gone, 0 moved, 3 unchanged",
        "g/Low\n  not tested: why",
        "incidents: 1 of 2 caught, 0 alerts of no incident",
        "0:01:30",
    ):
        assert text in output, text
