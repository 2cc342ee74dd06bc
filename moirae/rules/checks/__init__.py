"""Checks of rules before they run: their queries, and the rules that are stored."""

from moirae.rules.checks.check import check_rules
from moirae.rules.checks.check_session import StartSpark
from moirae.rules.checks.result_types import ResultTypes, infer_result_types, locate_fragment
from moirae.rules.checks.stored_rules import RuleAdmission
from moirae.rules.checks.verdict_store import VerdictStore

__all__ = [
    "ResultTypes",
    "RuleAdmission",
    "StartSpark",
    "VerdictStore",
    "check_rules",
    "infer_result_types",
    "locate_fragment",
]
