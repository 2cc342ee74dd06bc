"""Files of rule tests: keys that are refused, and why."""

import pytest

from moirae.documents import parse_document, validate
from moirae.rule_tests.model import RuleTestFile

TEST = """
tests:
- name: one
  {key}
  alert_rule_test:
  - {{eval_time: 1m, alertname: High{expectation}}}
"""


def find_problems(text: str) -> list[str]:
    document, problems = parse_document("t.yaml", text, empty_message="empty")
    assert document is not None
    assert not problems
    return list(map(str, validate(RuleTestFile, document)[1]))


@pytest.mark.parametrize(
    ("key", "expectation", "problem"),
    [
        ("input_series: []", "", "4:3: tests[0].input_series: write `input: {STREAM: "),
        ("inputs: {}", "", "4:3: tests[0]: unknown key 'inputs', did you mean 'input'?"),
        ("interval: 0s", "", "4:13: tests[0].interval: must be longer than 0s"),
        ("input: {}", ", exp_stages: []", "exp_stages: must be a mapping"),
        ("input: {}", ", event: {a: 1}", "event needs one of exp_contexts, exp_recalls, exp_simi"),
        ("input: {}", ", tolerance: 0.1", "tolerance needs one of exp_events, exp_contexts, exp_r"),
        ("input: {}", ", exp_notifications: [{time: 1m}]", "missing key 'receiver'"),
        ("input: {}", ", exp_alerts: [{state: gone}]", "must be 'pending', 'firing' or 'resolved'"),
    ],
)
def test_keys_without_meaning_are_refused_with_their_place(
    key: str, expectation: str, problem: str
) -> None:
    (found,) = find_problems(TEST.format(key=key, expectation=expectation))
    assert found.startswith("t.yaml:")
    assert problem in found


def test_names_of_tests_are_unique() -> None:
    text = TEST.format(key="input: {}", expectation="")
    (problem,) = find_problems(text + text.replace("tests:\n", "").lstrip("\n"))
    assert problem.endswith("duplicate name 'one'")


def test_time_of_zero_needs_no_unit() -> None:
    text = TEST.format(key="input: {}", expectation="")
    for zero in ("0", "'0'"):
        assert find_problems(text.replace("eval_time: 1m", f"eval_time: {zero}")) == []
    (problem,) = find_problems(text.replace("eval_time: 1m", "eval_time: 1"))
    assert "a duration needs a unit" in problem


def test_tests_need_no_names() -> None:
    text = TEST.format(key="input: {}", expectation="").replace("name: one\n  ", "")
    assert find_problems(text + text.replace("tests:\n", "").lstrip("\n")) == []
