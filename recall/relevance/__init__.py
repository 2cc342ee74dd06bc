"""Relevance of similar events: measures compared on labelled events, and calibration of scores.

What ranks past events has a front door of its own, `recall.relevance.rankers`.
"""

from recall.relevance.calibration import (
    CalibrationCase,
    CaseMaker,
    OutcomeReliability,
    Reliability,
    fit_calibration,
    measure_reliability,
)
from recall.relevance.forecasts import (
    FIRST_RESOLUTIONS,
    MIN_QUERIES,
    ForecastReliability,
    calibration_error,
    measure_forecasts,
    perfect_calibration_error,
)
from recall.relevance.quality import (
    METRICS,
    Evaluation,
    Gains,
    LearningStage,
    MetricEstimate,
    evaluate,
)
from recall.relevance.shown_forecasts import (
    RECORD_EPISODES,
    ShownForecast,
    ShownRecord,
    measure_shown,
)

__all__ = [
    "CalibrationCase",
    "CaseMaker",
    "Evaluation",
    "FIRST_RESOLUTIONS",
    "ForecastReliability",
    "Gains",
    "LearningStage",
    "METRICS",
    "MIN_QUERIES",
    "MetricEstimate",
    "OutcomeReliability",
    "RECORD_EPISODES",
    "Reliability",
    "ShownForecast",
    "ShownRecord",
    "calibration_error",
    "evaluate",
    "fit_calibration",
    "measure_forecasts",
    "measure_reliability",
    "measure_shown",
    "perfect_calibration_error",
]
