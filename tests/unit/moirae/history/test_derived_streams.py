"""Removal of versions of derived streams that no rule uses: their files count as used until the
database no longer lists the version.
"""

from pathlib import Path
from unittest.mock import MagicMock, patch

from archiver.errors import StorageFailed
from archiver.storage.base import LocalStorage
from moirae.history.derived_streams import DerivedStreamBuilder


def test_unneeded_version_leaves_the_database_last_and_survives_a_storage_failure(
    tmp_path: Path,
) -> None:
    (tmp_path / "derived" / "v1" / "streams" / "d").mkdir(parents=True)
    connection, steps = MagicMock(), []
    connection.execute.return_value.fetchall.return_value = [("d", "v1")]
    streams = DerivedStreamBuilder(connection, MagicMock(), tmp_path, MagicMock(), MagicMock())
    failure = StorageFailed("unreachable")
    with patch.object(LocalStorage, "touch", side_effect=failure):
        streams.remove_unneeded([], 0.0)
    assert connection.execute.call_count == 1, "the database still lists the version"
    connection.execute.side_effect = lambda *values: (
        steps.append(len(values)) or connection.execute.return_value
    )
    with patch.object(LocalStorage, "touch", side_effect=lambda: steps.append(0)):
        streams.remove_unneeded([], 0.0)
    assert steps == [1, 0, 2]
