"""Queries for the rows behind an alert."""

from dataclasses import replace
from pathlib import Path

from moirae.backtest.reports.row_links import list_row_queries
from moirae.config.settings import load_settings
from tests.unit.moirae.backtest.reports.test_history_lints import WORKSPACE, make_past
from tests.unit.moirae.backtest.test_alerts import make_alert


def test_query_has_the_time_and_the_key_of_the_alert(tmp_path: Path) -> None:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    settings = load_settings(tmp_path / "moirae.yaml", {})
    rule = make_past(settings, []).rule
    alert = replace(make_alert(7), attributes={"host": "it's"})
    assert list_row_queries(settings, rule, alert) == {
        "cpu": "SELECT * FROM cpu WHERE ts BETWEEN TIMESTAMP '2026-01-01T00:07:00+00:00' AND "
        "TIMESTAMP '2026-01-01T00:07:00+00:00' AND host = 'it\\'s'"
    }
    nothing = replace(alert, attributes={"host": None})
    assert list_row_queries(settings, rule, nothing)["cpu"].endswith("host IS NULL")
