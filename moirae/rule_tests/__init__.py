"""Tests of rules (`moirae rules test`): input rows, and what rules make of them by the times of the
test.

Rules are evaluated over a scratch archive as the past of rules is, by the engines of live rules;
alerts are folded from events as live. Nothing needs PostgreSQL or a running workspace.
"""

from moirae.rule_tests.files import find_test_files, read_test_files
from moirae.rule_tests.junit import format_junit
from moirae.rule_tests.model import RuleTestFile
from moirae.rule_tests.results import RuleTestResult, RuleTestRun

__all__ = [
    "RuleTestFile",
    "RuleTestResult",
    "RuleTestRun",
    "find_test_files",
    "format_junit",
    "read_test_files",
]
