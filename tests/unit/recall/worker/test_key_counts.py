"""Rows by key of a file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recall.worker import key_counts
from recall.worker.key_counts import _count_keys


def test_rows_are_counted_by_key_without_null(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    pq.write_table(pa.table({"host": ["a", "b", "a", None]}), file)
    assert _count_keys(file, ["host"]) == {"a": 2, "b": 1}
    assert _count_keys(file, ["missing"]) == {}


def test_file_with_too_many_keys_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_counts, "_MAX_KEYS_PER_FILE", 2)
    file = tmp_path / "part.parquet"
    pq.write_table(pa.table({"host": ["a", "b", "c"]}), file)
    assert _count_keys(file, ["host"]) is None
