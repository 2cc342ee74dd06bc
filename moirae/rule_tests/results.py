"""Runs the tests of files, one after the other."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import Pattern

from pyspark.sql import SparkSession

from moirae.config import Settings
from moirae.deployments import check_rule_files, select_rule_files
from moirae.rule_tests.coverage import CoveredItem, RuleTestCoverage, measure_coverage
from moirae.rule_tests.expectations import UnmetExpectation
from moirae.rule_tests.files import RuleTestDocument
from moirae.rule_tests.inputs import RuleTestOrigin
from moirae.rule_tests.model import RuleTest
from moirae.rule_tests.runner import RuleTester
from moirae.rules import Definition


@dataclass(frozen=True)
class RuleTestResult:
    """A test that ran. It passed if it has no failures.

    `seconds`: of the first of many small tests with what is done for all of them at once.
    """

    file: str
    line: int
    name: str
    seconds: float
    failures: Sequence[UnmetExpectation]


class RuleTestRun:
    """The tests of files whose name matches a pattern; None: all."""

    def __init__(
        self,
        settings: Settings,
        start_spark: Callable[[], SparkSession],
        pattern: Pattern[str] | None = None,
    ) -> None:
        self._settings = settings
        self._start_spark = start_spark
        self._pattern = pattern
        self._testers: dict[tuple[Path, ...], RuleTester] = {}
        self.definitions: dict[str, Definition] = {}
        """The rules of all files that were tested."""
        self._covered: set[CoveredItem] = set()

    def run(self, documents: Sequence[RuleTestDocument]) -> Iterator[RuleTestResult]:
        """The results in the order of the files. Raises `ProblemsError` for rules with errors."""
        for document in documents:
            tester = self._find_tester(document.rule_files)
            selected: list[tuple[RuleTest, RuleTestOrigin]] = []
            names: list[str] = []
            for number, test in enumerate(document.content.tests):
                name = test.name or f"test {number + 1}"
                if self._pattern is None or self._pattern.search(name):
                    origin = RuleTestOrigin(document.document, ("tests", number))
                    selected.append((test, origin))
                    names.append(name)
            started_at = time.monotonic()
            results = zip(names, selected, tester.run(selected), strict=True)
            for name, (_, origin), failures in results:
                self._covered |= tester.covered
                yield RuleTestResult(
                    file=document.document.file,
                    line=document.document.position(origin.path).line,
                    name=name,
                    seconds=time.monotonic() - started_at,
                    failures=failures,
                )
                started_at = time.monotonic()

    def measure_coverage(self) -> RuleTestCoverage:
        """What the tests that ran expect something of."""
        return measure_coverage(self.definitions.values(), self._covered)

    def _find_tester(self, rule_files: tuple[Path, ...]) -> RuleTester:
        if rule_files not in self._testers:
            paths = select_rule_files(self._settings, rule_files)
            definitions, _ = check_rule_files(self._start_spark, self._settings, paths)
            self.definitions |= {definition.name: definition for definition in definitions}
            session = self._start_spark().newSession()
            self._testers[rule_files] = RuleTester(self._settings, definitions, session)
        return self._testers[rule_files]
