"""`rules ci --server` in a git checkout: the server evaluates over its archive what a change changes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api_data import RULES, WORKSPACE
from tests.served import Served
from tests.served_archive import SLOW, serve_with_archive

pytestmark = pytest.mark.slow

TESTS = """
tests:
- name: a hot host
  input: {cpu: [{series: {host: a}, values: {cpu: "50 95"}}]}
  alert_rule_test:
  - {eval_time: 1m, alertname: r, exp_alerts: [{exp_labels: {host: a}}]}
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_with_archive() as running:
        yield running


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Rules and their test, committed at `main`."""
    folder = tmp_path / "checkout"
    (folder / "tests").mkdir(parents=True)
    (folder / "moirae.yaml").write_text(WORKSPACE)
    (folder / "rules.yaml").write_text(RULES)
    (folder / "tests" / "hot.yaml").write_text(TESTS)
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "one")
    return folder


def run_git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


def run_ci(served: Served, folder: Path, role: str = "operator") -> tuple[int, str, str]:
    command = ["rules", "ci", "--base", "main", "--server", served.url, "--token-file"]
    ended = subprocess.run(
        [sys.executable, "-m", "moirae", *command, str(served.token_file(role))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SLOW,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_change_is_checked_tested_and_evaluated_by_the_server(
    served: Served, checkout: Path
) -> None:
    code, shown, errors = run_ci(served, checkout)
    assert code == 0, errors
    assert shown.endswith("**Back-test**: no rule has another version\n")

    rules = checkout / "rules.yaml"
    rules.write_text(RULES.replace("cpu > 90", "cpu > 80"))
    code, shown, errors = run_ci(served, checkout)
    assert code == 0, errors
    assert "**Tests**: 1 test, 0 failed" in shown
    # 95 at eight of the minutes of three days, 85 at seven.
    assert "| g/r | 15 | 7 | 0 | 0 | 8 |" in shown
    assert shown.count("- new: g/r 20") == 5
    assert not (checkout / ".moirae" / "archive").exists()

    rules.write_text(RULES.replace("cpu > 90", "cpu > 96"))
    code, shown, _ = run_ci(served, checkout)
    assert code == 1
    assert "1 failed" in shown and "tests/hot.yaml:6:" in shown
    assert "| g/r | 0 | 0 | 8 | 0 | 0 |" in shown

    rules.write_text(RULES.replace("cpu > 90", "cpux > 90"))
    code, shown, _ = run_ci(served, checkout)
    assert code == 1 and "cpux" in shown and "Back-test" not in shown


def test_token_without_the_role_is_refused(served: Served, checkout: Path) -> None:
    code, _, errors = run_ci(served, checkout, "viewer")
    assert code != 0 and "operator" in errors
