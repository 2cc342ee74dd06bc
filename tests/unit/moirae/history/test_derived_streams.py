"""Removal of versions of derived streams that no rule uses: their files count as used until the
database no longer lists the version.
"""

from pathlib import Path
from unittest.mock import MagicMock, patch

from archiver.errors import StorageFailed
from archiver.storage.base import LocalStorage
from moirae.history.derived_streams import DerivedStreamBuilder
from sql.archive import DerivedChunkGateway
from sql.archive.derived_chunks import DerivedVersionRow


def test_unneeded_version_leaves_the_database_last_and_survives_a_storage_failure(
    tmp_path: Path,
) -> None:
    (tmp_path / "derived" / "v1" / "streams" / "d").mkdir(parents=True)
    version = DerivedVersionRow(stream="d", version="v1")
    steps: list[str] = []
    with (
        patch.object(DerivedChunkGateway, "list_versions", return_value=[version]),
        patch.object(
            DerivedChunkGateway, "delete_version", side_effect=lambda *_: steps.append("delete")
        ),
    ):
        streams = DerivedStreamBuilder(MagicMock(), MagicMock(), tmp_path, MagicMock(), MagicMock())
        with patch.object(LocalStorage, "touch", side_effect=StorageFailed("unreachable")):
            streams.remove_unneeded([])
        assert not steps, "the database still lists the version"
        with patch.object(LocalStorage, "touch", side_effect=lambda: steps.append("touch")):
            streams.remove_unneeded([])
    assert steps == ["touch", "delete"]


def test_files_of_a_version_are_deleted_after_it_left_the_database(tmp_path: Path) -> None:
    folder = tmp_path / "derived" / "v1"
    (folder / "streams" / "d").mkdir(parents=True)
    used_at = folder.stat().st_mtime
    streams = DerivedStreamBuilder(MagicMock(), MagicMock(), tmp_path, MagicMock(), MagicMock())
    version = DerivedVersionRow(stream="d", version="v1")
    with patch.object(DerivedChunkGateway, "list_versions", side_effect=[[version], [], []]):
        streams.delete_unneeded_files([], used_at + 100_000)
        assert folder.exists(), "the database lists the version"
        streams.delete_unneeded_files([], used_at + 60)
        assert folder.exists(), "a query may still read the files"
        streams.delete_unneeded_files([], used_at + 100_000)
    assert not folder.exists()
