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


@pytest.mark.slow
def test_workspace_without_rule_files_archives_its_rows_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "moirae.yaml"
    file.write_text(
        "streams: {s: {columns: {ts: timestamp}, time: ts, source: {files: landing/*.jsonl}}}\n"
        "rules: [rules/*.yaml]\n"
    )
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.jsonl").write_text('{"ts": "2026-01-01T00:00:00Z"}\n')
    command = [sys.executable, "-m", "moirae", "up", "--drain", "--workspace", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0
    assert "no rule files: rows are archived" in ended.stderr
    assert "1 records read: 1 archived" in ended.stdout


def _write_workspace(folder: Path, rules: str) -> Path:
    file = folder / "moirae.yaml"
    file.write_text(f"rules: {rules}\n")
    return file
