"""What is stored of a record of forecasts."""

from moirae.feedback.forecast_records import make_figures
from recall.relevance import MetricEstimate, ShownRecord
from sql.similarity import RecordFigures


def test_recall_without_resolved_forecasts_has_an_empty_record() -> None:
    assert make_figures(None) == RecordFigures(episodes=0)


def test_reason_says_why_frequencies_are_shown() -> None:
    worse = ShownRecord(50, 3.1, 2.2, MetricEstimate(0.9, 0.42, 1.38), 0.0)
    assert make_figures(worse).reason == (
        "Plain frequencies are shown: over the last 50 resolved episodes the learned probabilities "
        "were worse (log loss 3.10, frequencies 2.20, difference 0.90, 95 % interval 0.42 to 1.38)."
    )
    better = ShownRecord(50, 2.1, 2.2, MetricEstimate(-0.1, -0.2, 0.1), 0.0)
    assert make_figures(better).reason is None
