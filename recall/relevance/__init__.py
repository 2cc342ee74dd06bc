"""Relevance of similar events: measures compared on labelled events, and calibration of scores."""

from recall.relevance.baselines import BASELINES
from recall.relevance.calibration import (
    CalibrationCase,
    Reliability,
    fit_calibration,
    make_case,
    measure_reliability,
)
from recall.relevance.forecasts import ForecastReliability, measure_forecasts
from recall.relevance.learned_ranker import (
    LearnedRanker,
    make_learned_ranker,
)
from recall.relevance.quality import (
    METRICS,
    Evaluation,
    Gains,
    LearningStage,
    MetricEstimate,
    evaluate,
)
from recall.relevance.ready_contexts import (
    AlertContext,
    CandidateSet,
    Ranker,
    SimilarAlerts,
    find_similar,
    iter_candidate_sets,
    rank_by,
)

__all__ = [
    "AlertContext",
    "BASELINES",
    "CalibrationCase",
    "CandidateSet",
    "Evaluation",
    "ForecastReliability",
    "Gains",
    "LearnedRanker",
    "LearningStage",
    "METRICS",
    "MetricEstimate",
    "Ranker",
    "Reliability",
    "SimilarAlerts",
    "iter_candidate_sets",
    "evaluate",
    "find_similar",
    "fit_calibration",
    "make_case",
    "make_learned_ranker",
    "measure_forecasts",
    "measure_reliability",
    "rank_by",
]
