"""The storage of a workspace: what `archive` selects, and its check."""

from pathlib import Path

import pytest

from archiver.storage import S3Storage
from moirae.config.settings import load_settings
from moirae.runtime.storage.archive import check_storage, open_storage


def test_check_of_object_storage_retries_less_than_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "moirae.yaml").write_text("archive: s3://bucket/prefix\n")
    settings = load_settings(tmp_path / "moirae.yaml", {})
    retries: list[int] = []
    monkeypatch.setattr(S3Storage, "check", lambda storage: retries.append(storage._max_retries))
    check_storage(settings)
    storage = open_storage(settings)
    assert isinstance(storage, S3Storage)
    assert retries[0] < storage._max_retries


def test_local_archive_needs_no_check(tmp_path: Path) -> None:
    (tmp_path / "moirae.yaml").write_text("archive: data\n")
    settings = load_settings(tmp_path / "moirae.yaml", {})
    check_storage(settings)
    assert open_storage(settings) == Path(settings.archive)
    assert not (tmp_path / "data").exists()
