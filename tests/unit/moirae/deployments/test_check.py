"""Workspaces without rule files are refused with what to do, by a drain before it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from moirae.config.settings import load_settings_from_environment
from moirae.deployments import select_rule_files
from moirae.errors import UsageError


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("[]", "moirae.yaml: `rules` is empty: name rule files, such as [rules/*.yaml]"),
        ("[rules/*.yaml]", "no rule files match "),
    ],
)
def test_a_workspace_without_rule_files_says_what_is_missing(
    tmp_path: Path, rules: str, message: str
) -> None:
    file = _write_workspace(tmp_path, rules)
    with pytest.raises(UsageError) as refused:
        select_rule_files(load_settings_from_environment(file), [])
    assert message in str(refused.value)


def test_a_drain_without_rule_files_ends_before_anything_starts(tmp_path: Path) -> None:
    file = _write_workspace(tmp_path, "[]")
    command = [sys.executable, "-m", "moirae", "up", "--drain", "--workspace", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "`rules` is empty" in ended.stderr
    assert not (tmp_path / ".moirae").exists()


def _write_workspace(folder: Path, rules: str) -> Path:
    file = folder / "moirae.yaml"
    file.write_text(f"rules: {rules}\n")
    return file
