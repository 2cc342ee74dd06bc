"""The lock file keeps names and bases; a damaged one is refused."""

from pathlib import Path

import pytest

from moirae.errors import MoiraeError
from moirae.sigma.lock import LockedRule, LockFile, format_lock, read_lock


def test_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    rules = {"b": LockedRule("two", "f.yaml", {"key": ["é"]}), "a": LockedRule("one", "f.yaml", {})}
    path = tmp_path / "sigma.lock"
    path.write_text(format_lock(LockFile("process", rules)))
    assert read_lock(path, "process") == LockFile("process", rules)
    assert format_lock(read_lock(path, "process")) == path.read_text()


def test_missing_lock_is_empty(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "none", "process") == LockFile("process")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "rules": {"a": 1}}'])
def test_damaged_lock_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sigma.lock"
    path.write_text(text)
    with pytest.raises(MoiraeError, match="not a lock file"):
        read_lock(path, "process")


def test_lock_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sigma.lock"
    path.write_text('{"version": 2, "rules": {}}')
    with pytest.raises(MoiraeError, match="later version"):
        read_lock(path, "process")
