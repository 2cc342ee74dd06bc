"""Warnings about slow patterns in the queries of a rule."""

from moirae.rules.checks.pattern_warnings import find_pattern_warnings
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule


def test_each_query_of_a_rule_is_read() -> None:
    rule = Rule(
        "g",
        AlertSpec.model_validate(
            {
                "alert": "A",
                "expr": "SELECT ts, host\nFROM s WHERE host RLIKE r'(a+)+$' OR host LIKE '%(a+)+$'",
                "context": {
                    "c": {
                        "sql": "SELECT regexp_extract(host, '(b+)+c', 1) AS x FROM s",
                        "within": "1h",
                    }
                },
            }
        ),
    )
    first, second = find_pattern_warnings(rule)
    assert "(a+)+ repeats what can be divided in many ways" in first.message
    assert "(b+)+ repeats" in second.message
    assert (first.path, first.line, first.column) == (("expr",), 2, 27)
    assert second.path == ("context", "c", "sql")
    assert first.to_problem(rule).severity == "warning"


def test_rule_without_patterns_has_no_warning() -> None:
    rule = Rule("g", AlertSpec(alert="A", expr="SELECT ts FROM s WHERE host = 'regexp(a+)+'"))
    assert list(find_pattern_warnings(rule)) == []
