"""Results of rule tests in the XML of JUnit, which build servers read. No I/O."""

from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from moirae.rule_tests.results import RuleTestResult

_XML_CHARACTERS = dict.fromkeys([*range(9), 11, 12, *range(14, 32)], "\N{REPLACEMENT CHARACTER}")


def format_junit(results: Sequence[RuleTestResult]) -> str:
    """A suite for each file, a case for each test."""
    root = ET.Element("testsuites", _count(results))
    for file, group in groupby(results, key=lambda result: result.file):
        suite_results = list(group)
        suite = ET.SubElement(root, "testsuite", {"name": file, **_count(suite_results)})
        for result in suite_results:
            attributes = {
                "classname": file,
                "name": result.name,
                "file": file,
                "line": str(result.line),
                "time": f"{result.seconds:.3f}",
            }
            case = ET.SubElement(suite, "testcase", _clean(attributes))
            for failure in result.failures:
                attributes = _clean({"message": f"{failure.place}: {failure.message}"})
                element = ET.SubElement(case, "failure", attributes)
                element.text = "\n".join(failure.lines).translate(_XML_CHARACTERS)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _count(results: Sequence[RuleTestResult]) -> dict[str, str]:
    failed = sum(bool(result.failures) for result in results)
    seconds = sum(result.seconds for result in results)
    return {"tests": str(len(results)), "failures": str(failed), "time": f"{seconds:.3f}"}


def _clean(attributes: dict[str, str]) -> dict[str, str]:
    return {name: value.translate(_XML_CHARACTERS) for name, value in attributes.items()}
