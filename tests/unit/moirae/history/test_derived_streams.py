"""Removal of versions of derived streams that no rule uses: their files count as used until the
database no longer lists the version.
"""

from pathlib import Path
from unittest.mock import MagicMock, patch

import sql
from archiver.errors import StorageFailed
from archiver.storage.base import LocalStorage
from moirae.history.derived_streams import DerivedStreamBuilder
from sql.derived_chunks import DerivedVersionRow


def test_unneeded_version_leaves_the_database_last_and_survives_a_storage_failure(
    tmp_path: Path,
) -> None:
    (tmp_path / "derived" / "v1" / "streams" / "d").mkdir(parents=True)
    version = DerivedVersionRow(stream="d", version="v1")
    steps: list[str] = []
    with (
        patch.object(sql.DerivedChunkGateway, "list_versions", return_value=[version]),
        patch.object(
            sql.DerivedChunkGateway, "delete_version", side_effect=lambda *_: steps.append("delete")
        ),
    ):
        streams = DerivedStreamBuilder(MagicMock(), MagicMock(), tmp_path, MagicMock(), MagicMock())
        with patch.object(LocalStorage, "touch", side_effect=StorageFailed("unreachable")):
            streams.remove_unneeded([], 0.0)
        assert not steps, "the database still lists the version"
        with patch.object(LocalStorage, "touch", side_effect=lambda: steps.append("touch")):
            streams.remove_unneeded([], 0.0)
    assert steps == ["touch", "delete"]
