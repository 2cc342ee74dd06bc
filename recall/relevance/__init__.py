"""Relevance of similar events: measures compared on labelled events, and calibration of scores."""

from recall.relevance.baselines import BASELINES
from recall.relevance.calibration import (
    CalibrationCase,
    Reliability,
    fit_calibration,
    make_case,
    measure_reliability,
)
from recall.relevance.quality import METRICS, Evaluation, Gains, MetricEstimate, evaluate
from recall.relevance.ready_contexts import (
    AlertContext,
    CandidateSet,
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
    "Gains",
    "METRICS",
    "MetricEstimate",
    "Reliability",
    "SimilarAlerts",
    "iter_candidate_sets",
    "evaluate",
    "find_similar",
    "fit_calibration",
    "make_case",
    "measure_reliability",
    "rank_by",
]
