"""Back-tests (`moirae rules backtest`): what a rule would have done over the archive.

Events come from the rule's own query as the past of deployed rules does, and alerts are folded from
events as live. Nothing is stored and nobody is told. `moirae.backtest.reports` and
`moirae.backtest.tuning` have doors of their own.
"""

from moirae.backtest.alert_columns import AlertColumns
from moirae.backtest.alerts import BacktestAlert
from moirae.backtest.archive import BacktestArchive, open_archive
from moirae.backtest.files import open_files
from moirae.backtest.rule_changes import ChangePlanner, RuleChange
from moirae.backtest.run import (
    Backtest,
    evaluate_together,
    find_notes,
    plan_backtest,
    plan_together,
)
from moirae.backtest.slices import BacktestRange
from moirae.backtest.versions import VersionChange

__all__ = [
    "AlertColumns",
    "Backtest",
    "BacktestAlert",
    "BacktestArchive",
    "BacktestRange",
    "ChangePlanner",
    "RuleChange",
    "VersionChange",
    "evaluate_together",
    "find_notes",
    "open_archive",
    "open_files",
    "plan_backtest",
    "plan_together",
]
