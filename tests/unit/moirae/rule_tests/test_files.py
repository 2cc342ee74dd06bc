"""Files of rule tests are found beside rule files."""

from pathlib import Path

import pytest

from moirae.config.settings import load_settings
from moirae.errors import ProblemsError, UsageError
from moirae.rule_tests.files import find_test_files, read_test_files


def test_tests_are_found_beside_rule_files_and_errors_name_their_place(tmp_path: Path) -> None:
    workspace = "streams:\n  a: {columns: {ts: timestamp}, time: ts, source: {files: a/*.jsonl}}\n"
    (tmp_path / "moirae.yaml").write_text(workspace)
    settings = load_settings(tmp_path / "moirae.yaml", {})
    with pytest.raises(UsageError, match="no files of rule tests"):
        find_test_files(settings, [])
    (tmp_path / "rules" / "tests").mkdir(parents=True)
    (tmp_path / "rules" / "r.yaml").write_text("groups: []")
    path = tmp_path / "rules" / "tests" / "t.yaml"
    path.write_text("tests: []\n")
    assert find_test_files(settings, []) == find_test_files(settings, [path.parent]) == [path]
    with pytest.raises(ProblemsError, match=r"t\.yaml:1:8: tests: must not be empty"):
        read_test_files(settings, [path])
    with pytest.raises(UsageError, match="no such file or folder"):
        find_test_files(settings, [tmp_path / "none"])


def test_rule_files_may_be_patterns(tmp_path: Path) -> None:
    workspace = "streams:\n  a: {columns: {ts: timestamp}, time: ts, source: {files: a/*.jsonl}}\n"
    (tmp_path / "moirae.yaml").write_text(workspace)
    (tmp_path / "tests").mkdir()
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text("groups: []")
    path = tmp_path / "tests" / "t.yaml"
    path.write_text(
        "rule_files: [../b.yaml, '../*.yaml', ../none.yaml]\n"
        "tests: [{alert_rule_test: [{eval_time: 1m, alertname: A}]}]\n"
    )
    (document,) = read_test_files(load_settings(tmp_path / "moirae.yaml", {}), [path])
    names = [file.name for file in document.rule_files]
    assert names == ["b.yaml", "a.yaml", "moirae.yaml", "none.yaml"]
