"""Results as XML of JUnit."""

from xml.etree import ElementTree as ET

from moirae.rule_tests.expectations import UnmetExpectation
from moirae.rule_tests.junit import format_junit
from moirae.rule_tests.results import RuleTestResult


def test_results_are_suites_by_file_with_their_failures() -> None:
    failure = UnmetExpectation("a.yaml:7:3", "alerts differ", ["- <x>", "+ \x01"])
    results = [
        RuleTestResult("a.yaml", 3, "good", 0.5, []),
        RuleTestResult("a.yaml", 5, "bad", 0.25, [failure]),
        RuleTestResult("b.yaml", 1, "other", 0.0, []),
    ]
    root = ET.fromstring(format_junit(results))
    assert (root.get("tests"), root.get("failures")) == ("3", "1")
    first, second = root
    assert (first.get("name"), first.get("failures"), second.get("tests")) == ("a.yaml", "1", "1")
    element = first[1][0]
    assert element.get("message") == "a.yaml:7:3: alerts differ"
    assert element.text == "- <x>\n+ \N{REPLACEMENT CHARACTER}"
