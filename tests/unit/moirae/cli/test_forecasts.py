"""`moirae similarity forecasts`."""

from datetime import UTC, datetime
from typing import Any

from moirae.cli.forecasts import _format_record
from moirae.services.operations.similarity import ForecastRecordSummary


def make_record(**fields: Any) -> ForecastRecordSummary:
    values: dict[str, Any] = {
        "rule": "g/r",
        "version": "1",
        "recall": "similar",
        "episodes": 50,
        "withheld_share": 0.1,
        "log_loss": 2.0,
        "frequency_log_loss": 2.5,
        "excess": -0.5,
        "excess_low": -0.8,
        "excess_high": -0.2,
        "reason": None,
        "worse_since": None,
        "checked_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return ForecastRecordSummary(**{**values, **fields})


def test_difference_has_its_sign_and_interval() -> None:
    row = _format_record(make_record())
    assert row == (
        "g/r",
        "similar",
        "50",
        "10%",
        "2.000",
        "2.500",
        "-0.500 (-0.80 to -0.20)",
        "learned",
    )


def test_worse_forecasts_are_shown_as_frequencies() -> None:
    assert _format_record(make_record(reason="Worse."))[-1] == "frequencies"


def test_recall_without_resolved_episodes_has_no_figures() -> None:
    row = _format_record(make_record(episodes=0, excess=None, log_loss=None))
    assert row == ("g/r", "similar", "0", "", "", "", "", "learned")
