"""Tests of rules (`moirae rules test`): input rows, and what rules make of them by the times of the
test.

Rules are evaluated over a scratch archive as the past of rules is, by the engines of live rules;
alerts are folded from events as live. Nothing needs PostgreSQL or a running workspace.
"""

from moirae.rule_tests.files import find_test_files, read_test_files
from moirae.rule_tests.junit import format_junit
from moirae.rule_tests.model import RuleTestFile
from moirae.rule_tests.results import RuleTestResult, RuleTestRun
from moirae.rule_tests.scratch_archive import write_archive
from moirae.rule_tests.stream_files import read_stream_file

__all__ = [
    "RuleTestFile",
    "RuleTestResult",
    "RuleTestRun",
    "find_test_files",
    "format_junit",
    "read_stream_file",
    "read_test_files",
    "write_archive",
]
