"""Rows are looked up in files by time."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from archiver.delta.data_files import TableFiles
from archiver.delta.file_identities import FileIdentities, look_up
from archiver.delta.table import StreamTable
from tests.unit.archiver.delta.test_table import SCHEMA, rows


@pytest.fixture
def table(tmp_path: Path) -> StreamTable:
    """Twenty rows, a microsecond apart, in one compact file."""
    table = StreamTable(tmp_path, SCHEMA)
    table.append(rows(range(20)), 1)
    table.cluster(0)
    return table


def test_rows_at_some_times_are_found(table: StreamTable) -> None:
    (file,) = table.data_files()
    lookups = FileIdentities(table.files, 100)
    (entries,) = lookups.find_at(file, np.array([3, 7, 99])).values()
    expected = rows(range(20))
    ids = np.array([expected["_id"][number].as_py() for number in (3, 7, 8)], dtype="S16")
    positions, found = look_up(entries, ids, np.arange(3))
    assert sorted(positions.tolist()) == [0, 1]
    assert set(found["hash"].tolist()) == {expected["_hash"][n].as_py() for n in (3, 7)}


def test_rows_with_other_values_are_left_out(table: StreamTable) -> None:
    (file,) = table.data_files()
    lookups = FileIdentities(table.files, 100)
    values = {"n": pa.array([4])}
    (entries,) = lookups.find_at(file, np.array([3, 4]), values).values()
    assert len(entries) == 1
    assert lookups.find_at(file, np.array([50])) == {}


def test_all_identities_are_computed_at_once_where_that_is_less(
    table: StreamTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = table.data_files()
    lookups = FileIdentities(table.files, 100)
    for _ in range(3):
        found = lookups.find_at(file, np.arange(10))
    assert len(found[0]) == 20

    def refuse(self: TableFiles, paths: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(TableFiles, "read_identities", refuse)
    assert len(lookups.find_at(file, np.array([1]))[0]) == 20
