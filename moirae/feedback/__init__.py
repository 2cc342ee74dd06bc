"""Feedback of operators: judgements of similar events, calibration, evaluation reports."""

from moirae.feedback.calibration_task import CalibrationTask
from moirae.feedback.context_files import (
    read_alerts,
    read_groups,
    read_judgements,
    read_labels,
    read_resolutions,
)
from moirae.feedback.forecast_records import update_forecast_records
from moirae.feedback.judgements import JudgedCorpus, Judgement
from moirae.feedback.report import METRIC_TITLES, EvaluationReport, draw_reports
from moirae.feedback.training import build_training_cases
from moirae.feedback.unresolved import list_unresolved
from moirae.feedback.workspace import (
    load_judged_corpora,
    record_judgement,
    withdraw_judgement,
)

__all__ = [
    "CalibrationTask",
    "EvaluationReport",
    "JudgedCorpus",
    "Judgement",
    "METRIC_TITLES",
    "draw_reports",
    "list_unresolved",
    "load_judged_corpora",
    "read_alerts",
    "read_groups",
    "read_judgements",
    "read_labels",
    "read_resolutions",
    "record_judgement",
    "build_training_cases",
    "update_forecast_records",
    "withdraw_judgement",
]
