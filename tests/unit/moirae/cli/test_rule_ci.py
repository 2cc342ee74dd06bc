"""Changes of rules as Markdown, and rule files of a commit."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moirae.cli.rule_ci import format_changes, format_check, format_tests, read_base
from moirae.config.settings import load_settings
from moirae.errors import Problem, UsageError
from moirae.rule_tests.expectations import UnmetExpectation
from moirae.rule_tests.results import RuleTestResult
from moirae.services.operations.backtests import ChangedAlert, ChangedRule
from moirae.services.operations.rules import RuleCheck

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


def make_change(**values: object) -> ChangedRule:
    fields: dict[str, object] = {"rule": "g/A", "version": "2", "before": "1"}
    return ChangedRule(**{**fields, **values})  # type: ignore[arg-type]


def test_changes_are_a_table_with_the_first_alerts() -> None:
    alert = ChangedAlert("new", TIME, TIME, None, {"alertname": "A", "host": "a|b"}, {})
    same = replace(alert, change="unchanged")
    changes = [
        make_change(alerts=3, new=1, unchanged=2, listed=[same, alert]),
        make_change(rule="g/B", before=None, problem="no rows"),
    ]
    assert format_changes(changes)[2:] == [
        "| rule | alerts | new | gone | moved | unchanged |",
        "|---|--:|--:|--:|--:|--:|",
        "| g/A | 3 | 1 | 0 | 0 | 2 |",
        "| g/B (new) | no rows | | | | |",
        "",
        "- new: g/A 2026-01-01 00:00:00Z host=a\\|b",
    ]
    assert format_changes([]) == ["**Back-test**: no rule has another version"]


def test_problems_and_failed_tests_are_listed() -> None:
    problem = Problem("r.yaml", 1, 2, "bad", "warning")
    assert format_check(RuleCheck(1, [], [])) == ["**Check**: 1 rule OK"]
    assert format_check(RuleCheck(1, [problem], []))[-1] == "- `r.yaml:1:2: warning: bad`"
    failure = UnmetExpectation("t.yaml:3:1", "alerts differ", [])
    results = [RuleTestResult("t.yaml", 1, "passes", 0.0, [])]
    assert format_tests(results) == ["**Tests**: 1 test, 0 failed"]
    results.append(RuleTestResult("t.yaml", 2, "fails", 0.0, [failure]))
    assert format_tests(results)[2:] == ["- fails", "  - `t.yaml:3:1: alerts differ`"]


def test_rule_files_are_read_from_the_base_commit(tmp_path: Path) -> None:
    (tmp_path / "moirae.yaml").write_text("streams: {}\nrules: ['rules/*.yaml']\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "one.yaml").write_text("groups: []\n")
    (tmp_path / "rules" / "tests").mkdir()
    for name in ("removed.yaml", "tests/one.yaml", "note.txt"):
        (tmp_path / "rules" / name).write_text("groups: []\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    (tmp_path / "rules" / "one.yaml").write_text("groups: [] # changed\n")
    (tmp_path / "rules" / "two.yaml").write_text("groups: []\n")
    (tmp_path / "rules" / "removed.yaml").unlink()
    settings = load_settings(tmp_path / "moirae.yaml", {})
    documents = read_base(settings, "main")
    assert [document.name for document in documents] == [
        str(tmp_path / "rules" / name) for name in ("one.yaml", "removed.yaml")
    ]
    assert documents[0].content == "groups: []\n"
    with pytest.raises(UsageError, match="--base: no commit or branch 'nowhere' in /"):
        read_base(settings, "nowhere")
