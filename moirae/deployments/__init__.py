"""Deployment of rules: desired and running rules, and the difference between them."""

from moirae.deployments.check import check_changed_keys, check_rule_files, select_rule_files
from moirae.deployments.checked_files import find_checked_files, store_checked_files
from moirae.deployments.drafts import check_draft, read_draft
from moirae.deployments.external_rules import ExternalRules
from moirae.deployments.initial_rules import InitialRules
from moirae.deployments.model import DamagedRule
from moirae.deployments.plan import DeploymentStep
from moirae.deployments.registry import RuleRegistry
from moirae.deployments.reload import RuleFileLoader, RuleReloader, compute_digest

__all__ = [
    "DamagedRule",
    "DeploymentStep",
    "ExternalRules",
    "InitialRules",
    "RuleFileLoader",
    "RuleRegistry",
    "RuleReloader",
    "check_changed_keys",
    "check_draft",
    "check_rule_files",
    "compute_digest",
    "find_checked_files",
    "read_draft",
    "select_rule_files",
    "store_checked_files",
]
