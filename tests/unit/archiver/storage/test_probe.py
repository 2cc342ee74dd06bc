"""What works in a folder of the archive."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from archiver.storage import LocalStorage
from archiver.storage.base import TryCommit
from archiver.storage.probe import list_contested_names, probe_storage


class _Overwriting(LocalStorage):
    """Ignores that an object exists."""

    @contextmanager
    def _write(self, content: bytes) -> Iterator[TryCommit]:
        def commit(name: str) -> bool:
            (self.data_folder / name).write_bytes(content)
            return True

        yield commit

    def prepare_commit(self, content: bytes) -> AbstractContextManager[TryCommit]:
        return self._write(content)


def test_first_process_wins_each_name(tmp_path: Path) -> None:
    first, second = (probe_storage(LocalStorage(tmp_path / "probe")) for _ in range(2))
    assert not any([*first.errors.values(), *second.errors.values()])
    assert (first.won, second.won) == (list_contested_names(), [])


def test_storage_that_overwrites_has_several_winners(tmp_path: Path) -> None:
    results = [probe_storage(_Overwriting(tmp_path / "probe")) for _ in range(2)]
    assert [result.won for result in results] == [list_contested_names()] * 2


def test_failing_steps_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = probe_storage(LocalStorage(tmp_path / "file"))
    assert result.errors["write"].startswith("NotADirectoryError: ")
    assert result.won == []
