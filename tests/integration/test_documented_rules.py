"""The rules in the documentation, as rule tests."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pyspark.sql import SparkSession

from moirae.config.settings import load_settings
from moirae.rule_tests.files import find_test_files, read_test_files
from moirae.rule_tests.results import RuleTestRun

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "documented_rules"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_RULE_KEYS = re.compile(r"^\s*(?:- alert|context|recall|then):(?: \{|\s*$| \w)", re.MULTILINE)

GROUP = "groups:\n- name: testbed\n  rules:\n"
DERIVED = """
groups:
- name: testbed
  derived: [{stream: load, expr: "SELECT host, ts, cpu FROM node"}]
  rules:
"""
CPU_HIGH = """  - alert: CpuHigh
    expr: SELECT host, ts, cpu FROM {stream} WHERE cpu > 50
    key: [host]
"""
PROCESSES = """    context:
      processes: {sql: SELECT process FROM process WHERE host = event.host, within: 1m}
"""
NODE_BUSY = """  - alert: NodeBusy
    expr: SELECT node, ts, cpu FROM node WHERE cpu > 90
    key: [node]
    recall:
      norm: {sql: "SELECT h.node, avg(h.cpu) AS mean FROM node h GROUP BY h.node", range: 7d}
"""
DISK_FULL = """
groups:
- name: disk
  rules:
  - alert: DiskFull
    expr: SELECT host, ts, used FROM disk WHERE used > 96
    key: [host]
    labels: {severity: page}
    annotations: {summary: "{{ event.host }} at {{ event.used }} %"}
"""


class Example(NamedTuple):
    """A part of a rule file in a page: the block with this number. `before`: what it leaves out."""

    page: str
    block: int
    before: str = ""
    indent: int = 0

    def read(self) -> str:
        block = _BLOCK.findall((ROOT / self.page).read_text(encoding="utf-8"))[self.block]
        return self.before + textwrap.indent(block, " " * self.indent)


# By the name of the file of its tests. External rules have none: their events are posted.
EXAMPLES: Mapping[str, Example] = {
    "overloaded": Example("docs/howto/write-a-rule.md", 0),
    "answers_read": Example("docs/howto/write-a-rule.md", 1),
    "strata": Example("docs/howto/write-a-rule.md", 2, GROUP, 2),
    "constants": Example("docs/howto/write-a-rule.md", 3, GROUP),
    "contexts": Example(
        "docs/concepts/contexts-and-recalls.md", 0, DERIVED + CPU_HIGH.format(stream="node")
    ),
    "hybrid_context": Example(
        "docs/concepts/contexts-and-recalls.md", 1, GROUP + CPU_HIGH.format(stream="node")
    ),
    "coverage": Example(
        "docs/concepts/contexts-and-recalls.md", 2, GROUP + CPU_HIGH.format(stream="cpu"), 4
    ),
    "norms": Example(
        "docs/concepts/contexts-and-recalls.md", 3, GROUP + CPU_HIGH.format(stream="cpu"), 4
    ),
    "learned": Example(
        "docs/concepts/learned-similarity.md",
        0,
        GROUP + CPU_HIGH.format(stream="cpu") + PROCESSES,
        4,
    ),
    "changes": Example("docs/howto/show-changes.md", 1, GROUP + CPU_HIGH.format(stream="cpu")),
    "stages": Example("docs/concepts/revisions.md", 0, GROUP + NODE_BUSY, 4),
    "readme": Example("README.md", 0, GROUP),
    "machine": Example("docs/howto/monitor-a-machine.md", 1),
    "external": Example("docs/howto/put-behind-prometheus.md", 4),
}
QUESTIONS = Example("docs/howto/ask-history.md", 0)
_QUESTION = re.compile(r"^\*\*\d+\. ", re.MULTILINE)


def test_every_rule_of_the_documentation_is_an_example() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("concepts/*.md")]
    pages += (ROOT / "docs").glob("howto/*.md")
    rules = {
        (page.relative_to(ROOT).as_posix(), number)
        for page in pages
        for number, block in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8")))
        if _RULE_KEYS.search(block)
    }
    examples = (*EXAMPLES.values(), QUESTIONS)
    assert rules == {(example.page, example.block) for example in examples}


@pytest.mark.slow
def test_examples_of_the_documentation_pass_their_tests(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "rules" / "tests"
    folder.mkdir(parents=True)
    _write_settings(tmp_path)
    for name, example in EXAMPLES.items():
        (tmp_path / "rules" / f"{name}.yaml").write_text(example.read())
        tests = TESTS / f"{name}.yaml"
        if tests.exists():
            (folder / tests.name).write_text(f"rule_files: [../{name}.yaml]\n{tests.read_text()}")
    page = _BLOCK.findall((ROOT / "docs/howto/test-rules.md").read_text(encoding="utf-8"))
    (tmp_path / "rules" / "disk.yaml").write_text(DISK_FULL)
    (folder / "disk.yaml").write_text(f"rule_files: [../disk.yaml]\n{page[0]}{page[1]}")
    (folder / "disk.jsonl").write_text('{"ts": "2026-01-01T00:01:00Z", "host": "b", "used": 5}\n')
    settings = load_settings(tmp_path / "moirae.yaml", {})
    documents = read_test_files(settings, find_test_files(settings, []))
    run = RuleTestRun(settings, lambda: spark)
    failures = {result.name: result.failures for result in run.run(documents)}
    assert failures == {name: [] for name in failures}
    assert len(documents) == len(EXAMPLES)
    # They read the stream of a recall, and alerts.
    missing = set(map(str, run.measure_coverage().missing))
    assert missing == {"testbed/NodeTooSmall", "testbed/Escalation"}


def test_twenty_questions_about_history_are_answered(spark: SparkSession, tmp_path: Path) -> None:
    """Each block of the page after the rule is a recall of it: all are asked about one event."""
    page = (ROOT / QUESTIONS.page).read_text(encoding="utf-8")
    rule, *recalls = _BLOCK.findall(page)
    assert len(recalls) == len(_QUESTION.findall(page)) == 20
    (tmp_path / "rules" / "tests").mkdir(parents=True)
    _write_settings(tmp_path)
    text = f"{rule}    recall:\n{textwrap.indent(''.join(recalls), ' ' * 6)}"
    (tmp_path / "rules" / "ask_history.yaml").write_text(text)
    tests = (TESTS / "ask_history.yaml").read_text()
    (tmp_path / "rules" / "tests" / "ask.yaml").write_text(
        f"rule_files: [../ask_history.yaml]\n{tests}"
    )
    settings = load_settings(tmp_path / "moirae.yaml", {})
    run = RuleTestRun(settings, lambda: spark)
    (result,) = run.run(read_test_files(settings, find_test_files(settings, [])))
    assert result.failures == []
    (test,) = yaml.safe_load(tests)["tests"]
    (expected,) = test["alert_rule_test"]
    assert len(expected["exp_recalls"]) == 20


def _write_settings(folder: Path) -> None:
    """The workspace of the pages, and the streams that one of them declares."""
    settings: dict[str, Any] = yaml.safe_load((TESTS / "moirae.yaml").read_text())
    machine = Example("docs/howto/monitor-a-machine.md", 0).read()
    settings["streams"] |= yaml.safe_load(machine)["streams"]
    (folder / "moirae.yaml").write_text(yaml.safe_dump(settings))
