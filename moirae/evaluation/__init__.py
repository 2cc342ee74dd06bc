"""Evaluation of rules and their contexts over rows, live and archived.

A module of its own, `moirae.evaluation.plan`, holds active rules, and which of them are due over
which slice of event time.
"""

from moirae.evaluation.contexts import (
    ContextEvaluator,
    ContextQueries,
    EventContexts,
    RecallAnswers,
)
from moirae.evaluation.costs import RuleCost
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.engine import EvaluationRequest, RowSource, RuleEngine
from moirae.evaluation.evaluator import EvaluationResult, RuleEngines, RuleEvaluator
from moirae.evaluation.executor_rules import ExecutorRules, PastTasks, is_executable
from moirae.evaluation.guard import Guard
from moirae.evaluation.indexed_rules import IndexedRules, IndexExplanation
from moirae.evaluation.isolation import evaluate_groups
from moirae.evaluation.json_values import to_json_values
from moirae.evaluation.loss_rates import LossLimits
from moirae.evaluation.losses import VerdictLosses, store_lost_rows
from moirae.evaluation.lost_rows import LostRow
from moirae.evaluation.necessary_scan import NecessaryScan
from moirae.evaluation.prepared_rules import PreparedRules
from moirae.evaluation.result_columns import divide_result
from moirae.evaluation.revision_rows import RevisionRows
from moirae.evaluation.rule_groups import RuleGroup, RuleGrouper
from moirae.evaluation.spark_rules import SparkRules
from moirae.evaluation.stream_rows import ArchivedStreamRows, LiveStreamRows

__all__ = [
    "ArchivedStreamRows",
    "ContextEvaluator",
    "ContextQueries",
    "DuckDBRules",
    "EvaluationRequest",
    "EvaluationResult",
    "EventContexts",
    "ExecutorRules",
    "Guard",
    "IndexExplanation",
    "IndexedRules",
    "LiveStreamRows",
    "LossLimits",
    "LostRow",
    "NecessaryScan",
    "PastTasks",
    "PreparedRules",
    "RecallAnswers",
    "RevisionRows",
    "RowSource",
    "RuleCost",
    "RuleEngine",
    "RuleEngines",
    "RuleEvaluator",
    "RuleGroup",
    "RuleGrouper",
    "SparkRules",
    "VerdictLosses",
    "divide_result",
    "evaluate_groups",
    "is_executable",
    "store_lost_rows",
    "to_json_values",
]
