"""Maintenance tasks in the background: results, failures and duplicates."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from archiver.chunks.lifecycle import CLUSTER, COUNT_ROWS, MaintenanceTask
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.delta.table import StreamTable
from tests.property.test_present_rows import SCHEMA, make_rows

FILE_RETENTION = 600.0  # seconds


@pytest.fixture
def maintenance(tmp_path: Path) -> Iterator[ChunkMaintenance]:
    maintenance = ChunkMaintenance(tmp_path, [SCHEMA], FILE_RETENTION)
    yield maintenance
    maintenance.stop()


def test_rows_of_a_chunk_are_counted_by_source_unit(
    maintenance: ChunkMaintenance, tmp_path: Path
) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    table.append(make_rows(0, 7, 0, 0), 0)
    table.append(make_rows(7, 3, 1, 7), 1)
    task = MaintenanceTask(0, COUNT_ROWS, 0)
    maintenance.submit([task])
    maintenance.wait()
    (result,) = maintenance.collect_results()
    assert result.task == task
    assert result.rows_by_unit == {("s", 1): 7}
    assert maintenance.collect_results() == []


def test_failed_task_is_reported_and_can_be_submitted_again(
    maintenance: ChunkMaintenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    task = MaintenanceTask(3, CLUSTER, 0)
    with capture_logs() as logs, monkeypatch.context() as patched:
        patched.setattr(StreamTable, "cluster", fail)
        maintenance.submit([task])
        maintenance.wait()
    (failure,) = maintenance.collect_results()
    assert (failure.task, failure.error) == (task, "no space left on device")
    (entry,) = logs
    assert (entry["action"], entry["task"], entry["chunk"]) == ("maintenance_failed", CLUSTER, 3)
    maintenance.submit([task])
    maintenance.wait()
    assert [result.task for result in maintenance.collect_results()] == [task]


def test_queued_task_is_not_queued_twice(
    maintenance: ChunkMaintenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, resumed = threading.Event(), threading.Event()

    def block(*_: object) -> None:
        started.set()
        assert resumed.wait(10)

    monkeypatch.setattr(StreamTable, "cluster", block)
    task = MaintenanceTask(0, CLUSTER, 0)
    maintenance.submit([task])
    assert started.wait(10)
    maintenance.submit([task, task])
    resumed.set()
    maintenance.wait()
    assert len(maintenance.collect_results()) == 1
