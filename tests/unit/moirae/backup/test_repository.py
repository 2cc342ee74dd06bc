"""The folder of backups."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pyrage import x25519

from archiver.storage import LocalStorage
from moirae.backup.encryption import AgeCipher, PlainCipher
from moirae.backup.manifest import FileEntry, Manifest
from moirae.backup.repository import Ownership, Repository
from moirae.errors import BackupDamaged, Conflict, NotFound, Stopped
from tests.unit.moirae.backup.test_manifest import make_manifest


def list_complete(repository: Repository) -> list[Manifest]:
    return list(repository.survey().complete)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(LocalStorage(tmp_path / "backups"), PlainCipher())


def test_backup_is_complete_once_its_manifest_is_written(repository: Repository) -> None:
    repository.write_part("b1", "files.tar", io.BytesIO(b"x"))
    assert repository.list_incomplete() == ["b1"]
    with pytest.raises(NotFound, match="is no folder of backups"):
        repository.survey()
    repository.claim(Ownership(make_manifest(1).workspace, 1))
    assert list_complete(repository) == []
    with pytest.raises(NotFound, match="no complete backup"):
        repository.get(None)
    repository.write_manifest(make_manifest(1))
    assert (repository.list_incomplete(), list_complete(repository)) == ([], [make_manifest(1)])
    assert repository.get("b1") == repository.get(None)


def test_copied_files_of_a_killed_backup_are_known(repository: Repository, tmp_path: Path) -> None:
    entry = repository.write_data_file("streams/s", "chunk=0/a.parquet", io.BytesIO(b"rows"))
    assert entry.bytes == 4
    repository.write_data_file("events", "b", io.BytesIO(b"rows"))
    repository.write_copied("b1", 1, {"streams/s": {"chunk=0/a.parquet": entry}})
    repository.write_copied("b1", 2, {"events": {"b": entry}})
    assert repository.read_copied("b1") == {
        ("streams/s", "chunk=0/a.parquet"): entry,
        ("events", "b"): entry,
    }
    assert repository.list_data_files() == {"streams/s/chunk=0/a.parquet": 4, "events/b": 4}
    repository.write_manifest(make_manifest(1))
    assert not list((tmp_path / "backups" / "backups" / "b1").glob("copied-*"))


def test_files_of_removed_backups_are_removed(repository: Repository) -> None:
    for path in ("a", "b", "old"):
        repository.write_data_file("streams/s", path, io.BytesIO(b"rows"))
    repository.write_manifest(make_manifest(1))
    repository.write_manifest(make_manifest(2))
    repository.remove_backups(["b1"])
    assert [manifest.name for manifest in list_complete(repository)] == ["b2"]

    def stop() -> None:
        raise Stopped("stopped")

    with pytest.raises(Stopped):
        repository.remove_unused_files(stop)
    assert len(repository.list_data_files()) == 3
    assert repository.remove_unused_files() == 1
    assert repository.list_data_files().keys() == {"streams/s/a", "streams/s/b"}


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
        list_complete(repository)
    file.write_text("{}")
    with pytest.raises(BackupDamaged, match=r"moirae-backup\.json: damaged: .*: remove it"):
        list_complete(repository)


def test_lost_file_of_the_owner_is_made_from_the_backups(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write_manifest(make_manifest(1))
    repository.write_manifest(replace(make_manifest(2), generation=3))
    assert repository.read_ownership() == Ownership(UUID(int=1), 3)
    with pytest.raises(Conflict, match="restored elsewhere"):
        repository.claim(Ownership(UUID(int=1), 2))
    (tmp_path / "backups" / "backups" / "b2" / "manifest.json").write_text("")
    with pytest.raises(BackupDamaged, match=r"is missing, and backup b2: its manifest is damaged"):
        repository.claim(Ownership(UUID(int=2), 1))


@pytest.mark.parametrize("damage", ["empty", "of another backup"])
def test_damaged_backup_hides_no_other_one(
    repository: Repository, tmp_path: Path, damage: str
) -> None:
    repository.claim(Ownership(UUID(int=1), 1))
    manifests = [make_manifest(day) for day in (1, 2, 3)]
    for manifest in manifests:
        repository.write_manifest(manifest)
    folders = tmp_path / "backups" / "backups"
    content = b""
    if damage == "of another backup":
        content = (folders / "b1" / "manifest.json").read_bytes()
    (folders / "b3" / "manifest.json").write_bytes(content)
    survey = repository.survey()
    assert survey.complete == manifests[:2]
    assert survey.describe_damage().startswith("backup b3: its manifest is")
    assert repository.find_newest() == manifests[1]
    # An older state is not restored without a word.
    with pytest.raises(BackupDamaged, match=r"b3: .*; the newest other one: --backup b2"):
        repository.get(None)
    with pytest.raises(BackupDamaged, match="b3: its manifest is"):
        repository.get("b3")
    assert repository.get("b2") == manifests[1]
    # Which files it has is not known.
    repository.write_data_file("streams/s", "of-b3", io.BytesIO(b"rows"))
    assert repository.remove_unused_files() == 0
    repository.write_manifest(make_manifest(4))
    assert repository.get(None) == make_manifest(4)
    assert repository.survey().list_expired(1) == ["b1", "b2", "b3"]
    assert repository.survey().list_expired(3) == []


def test_name_of_a_backup_is_after_all_others_also_if_the_clock_was_set_back(
    repository: Repository, tmp_path: Path
) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)
    assert repository.choose_name(now) == "20260102T030405678Z"
    (tmp_path / "backups" / "backups" / "lost+found").mkdir(parents=True)
    (tmp_path / "backups" / "backups" / "20270102T030405999Z").mkdir()
    assert repository.choose_name(now) == "20270102T030406000Z"


def test_truncated_and_missing_files_are_known_without_reading_them(
    repository: Repository,
) -> None:
    entry = FileEntry(100, "ab")
    assert repository.may_hold(100, entry)
    assert not any(repository.may_hold(size, entry) for size in (None, 0, 99, 101))
    encrypted = Repository(LocalStorage(Path("x")), AgeCipher(str(x25519.Identity.generate())))
    assert encrypted.may_hold(400, entry)
    assert not any(encrypted.may_hold(size, entry) for size in (None, 0, 100))


def test_remains_of_a_killed_backup_are_removed(repository: Repository, tmp_path: Path) -> None:
    repository.write_data_file("streams/s", "a", io.BytesIO(b"rows"))
    remains = tmp_path / "backups" / "files" / "streams" / "s" / f".{uuid4().hex}.tmp"
    remains.write_text("part")
    repository.remove_unfinished()
    assert not remains.exists()
    assert list(repository.list_data_files()) == ["streams/s/a"]


def test_folder_within_the_workspace_is_known(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    inner = Repository(LocalStorage(tmp_path / "link" / "backups"), PlainCipher())
    assert inner.is_within(str(tmp_path / "home"))
    assert not inner.is_within("s3://bucket/archive")
    assert not Repository(LocalStorage(tmp_path / "homes"), PlainCipher()).is_within(
        str(tmp_path / "home")
    )


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
