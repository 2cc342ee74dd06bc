"""Checks of rules before they run: their queries, and the rules that are stored."""

from moirae.rules.checks.check import check_rules
from moirae.rules.checks.result_types import ResultTypes, infer_result_types, locate_fragment
from moirae.rules.checks.stored_rules import RuleAdmission

__all__ = [
    "ResultTypes",
    "RuleAdmission",
    "check_rules",
    "infer_result_types",
    "locate_fragment",
]
