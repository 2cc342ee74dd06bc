"""The folder of backups."""

import io
from pathlib import Path
from uuid import UUID

import pytest

from archiver.storage import LocalStorage
from moirae.backup.encryption import PlainCipher
from moirae.backup.manifest import FileEntry
from moirae.backup.repository import Ownership, Repository
from moirae.errors import BackupDamaged, Conflict, NotFound
from tests.unit.moirae.backup.test_manifest import make_manifest


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(LocalStorage(tmp_path / "backups"), PlainCipher())


def test_backup_is_complete_once_its_manifest_is_written(repository: Repository) -> None:
    repository.write_part("b1", "files.tar", io.BytesIO(b"x"))
    assert repository.list_incomplete() == ["b1"]
    assert repository.list_complete() == []
    with pytest.raises(NotFound, match="no complete backup"):
        repository.get(None)
    repository.write_manifest(make_manifest(1))
    assert (repository.list_incomplete(), repository.list_complete()) == ([], [make_manifest(1)])
    assert repository.get("b1") == repository.get(None)


def test_copied_files_of_a_killed_backup_are_known(repository: Repository, tmp_path: Path) -> None:
    entry = repository.write_data_file("streams/s", "chunk=0/a.parquet", io.BytesIO(b"rows"))
    assert entry.bytes == 4
    repository.write_copied("b1", 1, {"streams/s": {"chunk=0/a.parquet": entry}})
    repository.write_copied("b1", 2, {"events": {"b": entry}})
    assert repository.read_copied("b1") == {
        ("streams/s", "chunk=0/a.parquet"): entry,
        ("events", "b"): entry,
    }
    assert repository.list_data_files() == {"streams/s/chunk=0/a.parquet"}
    repository.write_manifest(make_manifest(1))
    assert not list((tmp_path / "backups" / "backups" / "b1").glob("copied-*"))


def test_files_of_removed_backups_are_removed(repository: Repository) -> None:
    for path in ("a", "b", "old"):
        repository.write_data_file("streams/s", path, io.BytesIO(b"rows"))
    repository.write_manifest(make_manifest(1))
    repository.write_manifest(make_manifest(2))
    repository.remove_backups(["b1"])
    assert [manifest.name for manifest in repository.list_complete()] == ["b2"]
    assert repository.remove_unused_files(repository.list_complete()) == 1
    assert repository.list_data_files() == {"streams/s/a", "streams/s/b"}


def test_folder_belongs_to_one_workspace_and_its_newest_generation(repository: Repository) -> None:
    assert repository.read_ownership() is None
    repository.claim(Ownership(UUID(int=1), 1))
    repository.claim(Ownership(UUID(int=1), 2))
    assert repository.read_ownership() == Ownership(UUID(int=1), 2)
    with pytest.raises(Conflict, match="restored elsewhere"):
        repository.claim(Ownership(UUID(int=1), 1))
    with pytest.raises(Conflict, match="another workspace"):
        repository.claim(Ownership(UUID(int=2), 3))


def test_folder_of_a_later_format_is_refused(repository: Repository, tmp_path: Path) -> None:
    repository.claim(Ownership(UUID(int=1), 1))
    file = tmp_path / "backups" / "moirae-backup.json"
    content = file.read_text()
    file.write_text(content.replace('"format": 1', '"format": 2'))
    with pytest.raises(Conflict, match="update Moirae"):
        repository.list_complete()
    file.write_text("{}")
    with pytest.raises(BackupDamaged, match=r"moirae-backup\.json: damaged"):
        repository.list_complete()


def test_copy_is_compared_with_the_manifest(repository: Repository) -> None:
    entry = repository.write_part("b1", "files.tar", io.BytesIO(b"content"))
    target = io.BytesIO()
    copied = repository.read_part("b1", "files.tar", target)
    assert (target.getvalue(), copied) == (b"content", entry)
    repository.check("files.tar", entry, copied)
    with pytest.raises(BackupDamaged, match=r"files\.tar: is not the file that was backed up"):
        repository.check("files.tar", entry, FileEntry(7, "00"))
    with pytest.raises(BackupDamaged, match="is missing"):
        repository.read_data_file("streams/s", "absent", target)
