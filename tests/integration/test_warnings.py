"""Keys without effect are reported by every command that reads their file. Spark runs in child
processes.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.services.operations import rules
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams:
  cpu: {columns: {ts: timestamp, host: string}, time: ts, source: {files: x/*.jsonl}}
rules: [rules.yaml]
receivers: {ops: {webhook: "http://127.0.0.1/"}}
"""
RULES = """groups:
- name: g
  interval: 10s
  rules:
  - {alert: A, expr: "SELECT host, ts FROM cpu", labels: {a: b}}
"""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, RULES) as folder:
        yield folder


def _places(root: Path) -> list[str]:
    return [f"{root}/moirae.yaml:6:1: warning: receivers: no route leads"] + [
        f"{root}/rules.yaml:{place}: not evaluated yet" for place in ("3:3: warning: g.interval",)
    ]


@pytest.mark.slow
@pytest.mark.services
def test_rules_check_lists_keys_without_an_effect_as_warnings(root: Path) -> None:
    command = [sys.executable, "-m", "moirae", "rules", "check", "-o", "json"]
    done = subprocess.run(
        [*command, "--workspace", str(root / "moirae.yaml")],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    problems = json.loads(done.stdout)["problems"]
    warnings = [
        f"{p['file']}:{p['line']}:{p['column']}: {p['severity']}: {p['message']}" for p in problems
    ]
    assert len(warnings) == 2
    assert all(text.startswith(place) for text, place in zip(warnings, _places(root), strict=True))
    assert done.returncode == 3  # there are warnings in rule files


def test_warnings_of_the_workspace_file_leave_the_exit_code_as_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "_count_rules", lambda *_, **__: (0, []))
    result = CliRunner().invoke(app, ["rules", "check", "--workspace", str(root / "moirae.yaml")])
    assert result.exit_code == 0
    assert result.stderr.startswith(_places(root)[0])
    assert result.stdout == "0 rules OK, 1 warning\n"


def test_status_and_doctor_warn_and_keep_their_exit_code(root: Path) -> None:
    arguments = ["--workspace", str(root / "moirae.yaml"), "-o", "json"]
    result = CliRunner().invoke(app, ["status", *arguments])
    assert result.exit_code == 0
    assert [
        warning.startswith(_places(root)[0]) for warning in json.loads(result.stdout)["warnings"]
    ] == [True]
    assert result.stderr.startswith(_places(root)[0])
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code == 0
    assert all(
        line.startswith(p)
        for line, p in zip(result.stderr.splitlines(), _places(root), strict=True)
    )
