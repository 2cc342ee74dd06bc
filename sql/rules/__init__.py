"""Rules and their deployments, files, errors, and the events of their past."""

from sql.rules.backtests import BacktestGateway, BacktestRow, ClaimedBacktest
from sql.rules.deployments import DeploymentGateway, DeploymentRow, LosingRuleRow
from sql.rules.lost_verdicts import (
    KnownLostRow,
    LostVerdictCounts,
    LostVerdictGateway,
    LostVerdictRow,
)
from sql.rules.rule_candidates import CandidateCounts, RuleCandidateGateway
from sql.rules.rule_errors import RuleErrorGateway, RuleErrorRow
from sql.rules.rule_files import RuleFileGateway, RuleFilesRow
from sql.rules.rules import DesiredRuleRow, ListedRuleRow, RuleGateway
from sql.rules.views import ViewGateway

__all__ = [
    "BacktestGateway",
    "BacktestRow",
    "ClaimedBacktest",
    "CandidateCounts",
    "DeploymentGateway",
    "DeploymentRow",
    "DesiredRuleRow",
    "KnownLostRow",
    "ListedRuleRow",
    "LosingRuleRow",
    "LostVerdictCounts",
    "LostVerdictGateway",
    "LostVerdictRow",
    "RuleCandidateGateway",
    "RuleErrorGateway",
    "RuleErrorRow",
    "RuleFileGateway",
    "RuleFilesRow",
    "RuleGateway",
    "ViewGateway",
]
