"""Free space where a workspace writes."""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.runtime.storage.disk_space import DISK_RESERVE, measure_disk_space
from moirae.server.ingest import IngestLimits


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "moirae.yaml").write_text("home: .moirae\n")
    return load_settings(tmp_path / "moirae.yaml", {})


def test_missing_folders_count_on_the_disk_of_their_parent(
    settings: Settings, tmp_path: Path
) -> None:
    (disk,) = measure_disk_space(settings)
    assert (disk.path, list(disk.holds)) == (str(tmp_path), ["home", "archive", "landing folder"])
    assert disk.to_json() == {
        "path": str(tmp_path),
        "holds": ["home", "archive", "landing folder"],
        "free_bytes": disk.free_bytes,
        "reserve_bytes": DISK_RESERVE,
        "full": disk.free_bytes < DISK_RESERVE,
    }


def test_disk_is_full_below_the_reserve_of_the_server(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = IngestLimits().disk_reserve_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Mock(free=reserve - 1))
    assert [disk.full for disk in measure_disk_space(settings)] == [True]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Mock(free=reserve))
    assert [disk.full for disk in measure_disk_space(settings)] == [False]


def test_each_file_system_is_measured_once(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system")
    (tmp_path / "moirae.yaml").write_text(f"home: .moirae\narchive: {memory}/moirae-archive\n")
    disks = measure_disk_space(load_settings(tmp_path / "moirae.yaml", {}))
    assert [list(disk.holds) for disk in disks] == [["home", "landing folder"], ["archive"]]


def test_archive_in_object_storage_needs_no_local_disk(tmp_path: Path) -> None:
    (tmp_path / "moirae.yaml").write_text("archive: s3://bucket/prefix\n")
    (disk,) = measure_disk_space(load_settings(tmp_path / "moirae.yaml", {}))
    assert list(disk.holds) == ["home", "landing folder"]
