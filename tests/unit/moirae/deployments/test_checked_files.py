"""The result of a check is stored for the same files over the same columns."""

from pathlib import Path

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.deployments.checked_files import find_checked_files, store_checked_files
from moirae.errors import Problem


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    file = tmp_path / "moirae.yaml"
    file.write_text(
        """home: .moirae
streams:
  s: {columns: {ts: timestamp}, time: ts, source: {files: landing/*.jsonl}}
rules: [rules/*.yaml]
"""
    )
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.yaml").write_text("groups: []\n")
    return load_settings(file, {})


def test_same_files_have_the_stored_result(settings: Settings, tmp_path: Path) -> None:
    warning = Problem(str(tmp_path / "rules" / "a.yaml"), 2, 3, "unused", "warning")
    assert find_checked_files(settings, []) is None
    store_checked_files(settings, [], 7, [warning])
    assert find_checked_files(settings, []) == (7, [warning])


def test_changed_file_has_no_result(settings: Settings, tmp_path: Path) -> None:
    store_checked_files(settings, [], 7, [])
    (tmp_path / "rules" / "a.yaml").write_text("groups: [ ]\n")
    assert find_checked_files(settings, []) is None


def test_result_with_a_warning_about_another_file_is_not_stored(settings: Settings) -> None:
    store_checked_files(settings, [], 7, [Problem("other.yaml", 1, 1, "unused", "warning")])
    assert find_checked_files(settings, []) is None
