"""A local folder as storage: commits that never replace a file, and times of use."""

import errno
import os
from pathlib import Path
from uuid import uuid4

import pytest

from archiver.storage.base import LocalStorage, as_storage


def _storage(folder: Path) -> LocalStorage:
    (folder / "_delta_log").mkdir(parents=True)
    return LocalStorage(folder)


def test_paths_become_local_storage_and_storage_stays() -> None:
    storage = as_storage(Path("archive"))
    assert isinstance(storage, LocalStorage)
    assert as_storage(storage) is storage
    assert str(storage / "streams" / "cpu") == "archive/streams/cpu"


def test_commit_takes_the_first_free_name_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    with storage.prepare_commit(b"first") as commit:
        assert commit("_delta_log/0.json")
    with storage.prepare_commit(b"second") as commit:
        assert not commit("_delta_log/0.json")
        assert len(storage.list_files()) == 1
        assert commit("_delta_log/1.json")
    assert storage.read_log_file("_delta_log/0.json") == b"first"
    assert storage.read_log_file("_delta_log/1.json") == b"second"
    assert storage.list_files() == []


def test_folder_of_a_removed_file_is_removed_once_it_is_empty(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    for name in ("chunk=0/a.parquet", "chunk=0/b.parquet"):
        with storage.write_data_file(name) as path:
            path.write_bytes(b"x")
    storage.remove("chunk=0/a.parquet")
    storage.remove("chunk=0/a.parquet")
    assert storage.list_files() == ["chunk=0/b.parquet"]
    storage.remove("chunk=0/b.parquet")
    assert not (tmp_path / "chunk=0").exists()


def test_use_time_is_that_of_the_newest_table_or_of_an_empty_folder(tmp_path: Path) -> None:
    for path, seconds in (("v1/streams/a", 10), ("v1/streams/b", 20), ("v2", 30)):
        (tmp_path / path).mkdir(parents=True)
        os.utime(tmp_path / path, (seconds, seconds))
    assert LocalStorage(tmp_path).folder_use_times() == {"v1": 20.0, "v2": 30.0}
    assert LocalStorage(tmp_path / "absent").folder_use_times() == {}
    LocalStorage(tmp_path / "v1" / "streams" / "a").touch()
    LocalStorage(tmp_path / "absent").touch()
    assert LocalStorage(tmp_path).folder_use_times()["v1"] > 30


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_disk_that_cannot_be_written_is_named_by_the_file(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(OSError, match=os.strerror(number)) as failed,
        LocalStorage(tmp_path).write_stream("folder/file"),
    ):
        raise OSError(number, os.strerror(number))
    assert failed.value.filename == str(tmp_path / "folder" / "file")
    assert list((tmp_path / "folder").iterdir()) == []


def test_remains_of_killed_processes_are_removed_at_any_depth(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    with storage.write_stream("a/b/file", sync_folder=False) as file:
        file.write(b"content")
    storage.sync_folders(["a/b/file"])
    folder = tmp_path / "a" / "b"
    (folder / f".{uuid4().hex}.tmp").write_text("part")
    (folder / ".of-another-program.tmp").write_text("part")
    storage.remove_unfinished()
    assert storage.list_sizes() == {"a/b/file": 7}
    assert sorted(path.name for path in folder.iterdir()) == [".of-another-program.tmp", "file"]
    LocalStorage(tmp_path / "absent").remove_unfinished()
