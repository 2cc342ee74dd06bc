"""What is said of back-tests: figures, known incidents, lints, late rows and queries for rows."""

from moirae.backtest.reports.history_lints import RulePast, find_in_past, find_pairs
from moirae.backtest.reports.incidents import (
    IncidentReport,
    KnownIncident,
    count_caught,
    find_caught,
    read_incidents,
)
from moirae.backtest.reports.late_rows import LateRowFinder
from moirae.backtest.reports.row_intervals import find_row_interval
from moirae.backtest.reports.row_links import list_row_queries
from moirae.backtest.reports.statistics import Statistics, count_alerts

__all__ = [
    "IncidentReport",
    "KnownIncident",
    "LateRowFinder",
    "RulePast",
    "Statistics",
    "count_alerts",
    "count_caught",
    "find_caught",
    "find_in_past",
    "find_pairs",
    "find_row_interval",
    "list_row_queries",
    "read_incidents",
]
