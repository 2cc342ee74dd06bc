"""Rewrites beside the live process: streams wait, failures are tried again, values are refused."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from archiver.delta.column_rewrite import ColumnRewrite
from archiver.delta.data_files.table_files import TableFiles
from archiver.delta.table import StreamTable
from archiver.errors import ValueLost
from moirae.errors import MoiraeError
from moirae.live import column_rewrites
from moirae.live.column_rewrites import ColumnRewrites
from tests.unit.archiver.delta.test_column_rewrite import CHANGED, SCHEMA, rows
from tests.waiting import wait_until


class Gateway:
    """Stores in memory what the database stores."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {"old": {}}

    def put(self, stream: str, columns: list[str], state: str, **values: Any) -> None:
        self.stored[stream] = {"columns": columns, "state": state, **values}

    def delete_others(self, streams: list[str]) -> None:
        self.stored = {name: self.stored[name] for name in self.stored if name in streams}


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with patch.object(column_rewrites, "_RETRY_INTERVAL", 0.05):
        yield


@pytest.fixture
def rewrites(tmp_path: Path) -> Iterator[ColumnRewrites]:
    StreamTable(tmp_path, SCHEMA).append(rows(SCHEMA, range(1, 5)), 1)
    table = StreamTable(tmp_path, CHANGED)
    created = ColumnRewrites(tmp_path, {"s": table}, Gateway())  # type: ignore[arg-type]
    yield created
    created.stop()


def stored(rewrites: ColumnRewrites) -> dict[str, dict[str, Any]]:
    gateway: Any = rewrites._gateway
    rewrites.update()
    return dict(gateway.stored)


def test_stream_goes_on_once_its_files_are_rewritten(rewrites: ColumnRewrites) -> None:
    assert rewrites.waiting_streams == ["s"] and "old" not in stored(rewrites)
    assert stored(rewrites)["s"]["columns"] == ["machine", "v", "day"]
    rewrites.start()
    wait_until(lambda: not stored(rewrites))
    assert rewrites.waiting_streams == []
    rewrites.require_success()


def test_full_disk_is_said_and_tried_again(rewrites: ColumnRewrites) -> None:
    full = patch.object(
        column_rewrites.shutil,
        "disk_usage",
        return_value=column_rewrites.shutil._ntuple_diskusage(100, 99, 1),
    )
    with full:
        rewrites.start()
        wait_until(lambda: stored(rewrites)["s"]["state"] == "failing")
        assert "the disk is full: the rewritten files need" in stored(rewrites)["s"]["reason"]
        with pytest.raises(MoiraeError, match="stream s: the disk is full"):
            rewrites.require_success()
    wait_until(lambda: not rewrites.waiting_streams or not stored(rewrites))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyError("x")])
def test_failed_write_is_tried_again(rewrites: ColumnRewrites, error: Exception) -> None:
    with patch.object(TableFiles, "write_rewritten", side_effect=error):
        rewrites.start()
        wait_until(lambda: stored(rewrites)["s"]["state"] == "failing")
    wait_until(lambda: not stored(rewrites))


def test_value_that_would_change_is_refused_for_good(rewrites: ColumnRewrites) -> None:
    with patch.object(ColumnRewrite, "check_values", side_effect=ValueLost("the value 1")) as check:
        rewrites.start()
        wait_until(lambda: stored(rewrites)["s"]["state"] == "refused")
        assert check.call_count == 1 and rewrites.waiting_streams == ["s"]
