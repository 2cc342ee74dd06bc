"""A version of a derived stream that nobody wants: its files count as used until it is gone from
the database.
"""

from pathlib import Path
from unittest.mock import MagicMock, patch

from archiver.errors import StorageFailed
from archiver.storage.base import LocalStorage
from moirae.history.derived_streams import DerivedStreamBuilder


def test_the_database_forgets_last_and_a_store_that_is_away_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "derived" / "v1" / "streams" / "d").mkdir(parents=True)
    looking, steps = MagicMock(), []
    looking.execute.return_value.fetchall.return_value = [("d", "v1")]
    streams = DerivedStreamBuilder(looking, MagicMock(), tmp_path, MagicMock(), MagicMock())
    away = StorageFailed("away")
    with patch.object(LocalStorage, "touch", side_effect=away):
        streams.remove_unneeded([], 0.0)
    assert looking.execute.call_count == 1, "nothing is forgotten"
    looking.execute.side_effect = lambda *values: (
        steps.append(len(values)) or looking.execute.return_value
    )
    with patch.object(LocalStorage, "touch", side_effect=lambda: steps.append(0)):
        streams.remove_unneeded([], 0.0)
    assert steps == [1, 0, 2]
