"""Stored verdicts hold for what was checked; a damaged or foreign file says nothing."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.rules.checks import verdict_store
from moirae.rules.checks.verdict_store import VerdictStore
from recall.similarity.measures import plugins

_CONTENT = ["rule", "SELECT ts FROM s WHERE n > 1"]
_VERDICT = {"types": [["n", "bigint"]]}
_FILE = ".moirae/rule_verdicts.jsonl"


def _settings(folder: Path, columns: str = "n: bigint") -> Settings:
    file = folder / "moirae.yaml"
    file.write_text(
        f"""home: .moirae
streams:
  s: {{columns: {{ts: timestamp, {columns}}}, time: ts, source: {{files: landing/*.jsonl}}}}
rules: [rules/*.yaml]
"""
    )
    return load_settings(file, {})


def _store_verdict(folder: Path) -> None:
    store = VerdictStore(_settings(folder))
    store.put(_CONTENT, _VERDICT)
    store.save()


def test_verdict_is_found_in_another_process(tmp_path: Path) -> None:
    _store_verdict(tmp_path)
    store = VerdictStore(_settings(tmp_path))
    assert store.find(_CONTENT) == _VERDICT
    assert store.find(["rule", "SELECT ts FROM s WHERE n > 2"]) is None


def test_verdict_does_not_hold_for_other_columns(tmp_path: Path) -> None:
    _store_verdict(tmp_path)
    assert VerdictStore(_settings(tmp_path, "n: string")).find(_CONTENT) is None


def test_verdict_does_not_hold_for_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _store_verdict(tmp_path)
    monkeypatch.setattr(verdict_store, "_code_digest", lambda: "another")
    assert VerdictStore(_settings(tmp_path)).find(_CONTENT) is None


def test_verdict_does_not_hold_without_a_package_that_declared_a_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        points = [EntryPoint("overlap", "our_measures:Overlap", plugins.GROUP)]
        patch.setattr(plugins, "entry_points", lambda group: points)
        _store_verdict(tmp_path)
        assert VerdictStore(_settings(tmp_path)).find(_CONTENT) == _VERDICT
    assert VerdictStore(_settings(tmp_path)).find(_CONTENT) is None


def test_two_processes_keep_the_verdicts_of_each_other(tmp_path: Path) -> None:
    first, second = VerdictStore(_settings(tmp_path)), VerdictStore(_settings(tmp_path))
    first.put(["a"], _VERDICT)
    second.put(["b"], _VERDICT)
    first.save()
    second.save()
    store = VerdictStore(_settings(tmp_path))
    assert store.find(["a"]) == store.find(["b"]) == _VERDICT


@pytest.mark.parametrize("position", [0, 40, 100, -2])
def test_damaged_line_is_ignored(tmp_path: Path, position: int) -> None:
    _store_verdict(tmp_path)
    file = tmp_path / _FILE
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(bytes(content))
    assert VerdictStore(_settings(tmp_path)).find(_CONTENT) is None


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00" * 100, b"[1, 2]\n", b"a b\n"])
def test_file_of_another_format_is_replaced(tmp_path: Path, content: bytes) -> None:
    settings = _settings(tmp_path)
    (tmp_path / ".moirae").mkdir()
    (tmp_path / _FILE).write_bytes(content)
    assert VerdictStore(settings).find(_CONTENT) is None
    _store_verdict(tmp_path)
    assert VerdictStore(settings).find(_CONTENT) == _VERDICT


def test_file_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    _store_verdict(tmp_path)
    (tmp_path / _FILE).chmod(0o620)
    assert VerdictStore(_settings(tmp_path)).find(_CONTENT) is None


def test_file_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    (tmp_path / ".moirae").write_text("a file, not a folder")
    store = VerdictStore(settings)
    store.put(_CONTENT, _VERDICT)
    store.save()
    assert VerdictStore(settings).find(_CONTENT) is None


def test_old_verdicts_are_dropped_beyond_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_store, "_MAX_VERDICTS", 2)
    _store_verdict(tmp_path)
    store = VerdictStore(_settings(tmp_path))
    store.put(["a"], _VERDICT)
    store.put(["b"], _VERDICT)
    store.save()
    store = VerdictStore(_settings(tmp_path))
    assert store.find(_CONTENT) is None
    assert store.find(["a"]) == store.find(["b"]) == _VERDICT
