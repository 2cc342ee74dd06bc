"""Rules and their deployments, files, errors, and the events of their past."""

from sql.rules.deployments import DeploymentGateway, DeploymentRow
from sql.rules.rule_candidates import CandidateCounts, RuleCandidateGateway
from sql.rules.rule_errors import RuleErrorGateway, RuleErrorRow
from sql.rules.rule_files import RuleFileGateway
from sql.rules.rules import RuleGateway
from sql.rules.views import ViewGateway

__all__ = [
    "CandidateCounts",
    "DeploymentGateway",
    "DeploymentRow",
    "RuleCandidateGateway",
    "RuleErrorGateway",
    "RuleErrorRow",
    "RuleFileGateway",
    "RuleGateway",
    "ViewGateway",
]
