"""Back-tests (`moirae rules backtest`): what a rule would have done over the archive.

Events come from the rule's own query as the past of deployed rules does, and alerts are folded from
events as live. Nothing is stored and nobody is told.
"""

from moirae.backtest.alerts import BacktestAlert
from moirae.backtest.archive import BacktestArchive, open_archive
from moirae.backtest.files import open_files
from moirae.backtest.history_lints import RulePast, find_in_past, find_pairs
from moirae.backtest.incidents import IncidentReport, KnownIncident, find_caught, read_incidents
from moirae.backtest.late_rows import LateRowFinder
from moirae.backtest.parameter_values import combine_values
from moirae.backtest.row_intervals import find_row_interval
from moirae.backtest.row_links import list_row_queries
from moirae.backtest.rule_changes import ChangePlanner, RuleChange
from moirae.backtest.run import (
    Backtest,
    evaluate_together,
    find_notes,
    plan_backtest,
    plan_together,
)
from moirae.backtest.slices import BacktestRange
from moirae.backtest.statistics import Statistics, count_alerts
from moirae.backtest.tuning import check_variants, report_value
from moirae.backtest.versions import VersionChange, compare_versions

__all__ = [
    "Backtest",
    "BacktestAlert",
    "KnownIncident",
    "IncidentReport",
    "LateRowFinder",
    "ChangePlanner",
    "RuleChange",
    "RulePast",
    "Statistics",
    "BacktestArchive",
    "BacktestRange",
    "VersionChange",
    "check_variants",
    "combine_values",
    "compare_versions",
    "count_alerts",
    "evaluate_together",
    "find_caught",
    "find_in_past",
    "find_notes",
    "find_pairs",
    "find_row_interval",
    "list_row_queries",
    "open_archive",
    "open_files",
    "plan_backtest",
    "plan_together",
    "read_incidents",
    "report_value",
]
