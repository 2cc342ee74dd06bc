"""Late, duplicate and expired rows for chunks of any age, and what recalls report about them."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from archiver.chunks.chunk import CutPolicy
from archiver.chunks.lifecycle import CLUSTER, DELETE_CHUNK, LifecyclePolicy, MaintenanceTask
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.errors import RowsLost
from archiver.formats import JSONL
from archiver.ingest.writer import ArchiveWriter, SourceUnit
from archiver.times import duration_to_micros
from moirae.inspect.doctor import run_checks
from moirae.inspect.health import list_problems
from moirae.inspect.status import collect_status
from moirae.runtime import storage
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from recall.ledger.tasks import Ledger
from recall.requests import Piece
from sql.archive import DeadLetterGateway, StreamCounts, UnitGateway
from sql.recalls import TaskGateway
from tests.integration.history import SCHEMA, START, History, history, run_until

ROWS = 100


@pytest.fixture
def past() -> Iterator[History]:
    """An archive of four full chunks and the newest one."""
    with history(5, ROWS) as five_chunks:
        yield five_chunks


def open_writer(past: History) -> ArchiveWriter:
    """Open the archive for writing."""
    policy = CutPolicy(ROWS, duration_to_micros(timedelta(days=365)))
    return ArchiveWriter(
        storage.open_storage(past.settings), [SCHEMA], policy, past.connection, lambda: None
    )


def ingest_rows(writer: ArchiveWriter, name: str, rows: list[tuple[int, str, int]]) -> None:
    """Ingest rows (second, host, value) as one source unit."""
    lines = [
        orjson.dumps({"ts": (START + timedelta(seconds=second)).isoformat(), "host": host, "v": v})
        for second, host, v in rows
    ]
    writer.ingest([SourceUnit("past", name, JSONL, lambda: iter(lines))], 1 << 57)


def run_maintenance(
    past: History,
    writer: ArchiveWriter,
    maintenance: ChunkMaintenance,
    retention: int,
    chunks_in_use: Callable[[], set[int]] = set,
) -> None:
    """Run all tasks that are due. `retention`: seconds of event time."""
    policy = LifecyclePolicy(1, retention * 1_000_000, 0.0)
    while tasks := writer.update_chunk_states(
        policy, maintenance.requirements, [writer.watermark("past")], chunks_in_use
    ):
        maintenance.submit(tasks)
        maintenance.wait()
        writer.record_results(maintenance.collect_results())


def accounting(past: History) -> StreamCounts:
    """The counters of the stream."""
    (counts,) = UnitGateway(past.connection).sum_by_stream()
    return counts


def test_late_rows_are_appended_to_recent_and_old_chunks(past: History) -> None:
    """Duplicates are recognised; chunks are clustered again; expired chunks refuse rows."""
    writer, maintenance = (
        open_writer(past),
        ChunkMaintenance(storage.open_storage(past.settings), [SCHEMA], 0.4),
    )
    try:
        run_maintenance(past, writer, maintenance, 10_000)
        assert [c.state for c in writer.chunks[:4]] == ["old", "old", "old", "recent"]
        before = accounting(past)
        second, host, v = past.rows[5]
        ingest_rows(
            writer, "late", [(5, "late", 1), (250, "late", 2), (350, "late", 3), (second, host, v)]
        )
        after = accounting(past)
        assert (after.archived - before.archived, after.late - before.late) == (3, 3)
        assert after.duplicates - before.duplicates == 1
        versions = [record.version for record in writer.catalog.chunk_records()]
        assert versions[:4] == [1, 0, 1, 1]
        for number in range(20):
            ingest_rows(writer, f"late {number}", [(350, f"late {number}", 3)])
        assert writer.tables["past"].count_unclustered(3) == 21
        run_maintenance(past, writer, maintenance, 10_000)
        assert (
            writer.tables["past"].count_unclustered(3) == 0
            and writer.tables["past"].count_unclustered(0) == 1
        )

        run_maintenance(past, writer, maintenance, 300)
        assert writer.chunks[0].state == "expired"
        ingest_rows(writer, "expired", [(5, "expired", 1), (480, "h1", 2)])
        last = accounting(past)
        assert last.expired == 1 and last.read == last.archived + last.duplicates + last.expired
        (letter,) = DeadLetterGateway(past.connection).list_newest("past", "expired", 10)
        assert b'"expired"' in letter.raw
        assert not [f for f in run_checks(past.settings, past.connection) if f.problems]
    finally:
        maintenance.stop()


def test_chunk_that_cannot_be_rewritten_is_a_problem_until_it_can(past: History) -> None:
    """As where a rewrite would lose rows: its files stay."""
    root = storage.open_storage(past.settings)
    writer, maintenance = open_writer(past), ChunkMaintenance(root, [SCHEMA], 0.4)
    rewrite = maintenance.rewrite

    def lose_rows(*_: Any) -> Any:
        raise RowsLost("the rows of chunk 0 are not the same in one file")

    try:
        maintenance.rewrite = lose_rows
        maintenance.submit([MaintenanceTask(0, CLUSTER, 0)])
        maintenance.wait()
        writer.record_results(maintenance.collect_results())
        status = collect_status(past.connection, storage.open_storage(past.settings), [])
        (problem,) = [line for line in list_problems(status) if "maintenance" in line]
        assert "chunk 0: cluster: the rows of chunk 0 are not the same" in problem
        maintenance.rewrite = rewrite
        maintenance.submit([MaintenanceTask(0, CLUSTER, 0)])
        maintenance.wait()
        writer.record_results(maintenance.collect_results())
        status = collect_status(past.connection, storage.open_storage(past.settings), [])
        assert status["maintenance_errors"] == []
    finally:
        maintenance.stop()


def test_files_of_an_expired_chunk_are_deleted(past: History) -> None:
    """The ledger counts their rows as deleted."""
    root = storage.open_storage(past.settings)
    writer, maintenance = open_writer(past), ChunkMaintenance(root, [SCHEMA], 0.4)
    try:
        run_maintenance(past, writer, maintenance, 200)
        deleted = [
            record.chunk.id
            for record in writer.catalog.chunk_records()
            if DELETE_CHUNK in record.completed_versions
        ]
        assert deleted and accounting(past).deleted == ROWS * len(deleted)
        deadline = time.monotonic() + 60
        while any((root / "streams" / "past" / f"chunk={chunk}").exists() for chunk in deleted):
            assert time.monotonic() < deadline, "the files are not deleted"
            time.sleep(0.1)
        assert not [f for f in run_checks(past.settings, past.connection) if f.problems]
    finally:
        maintenance.stop()


def test_files_of_an_expired_chunk_stay_until_running_recalls_finish(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk is expired for new recalls, and still readable for those that run."""
    resumed, compute_partials = threading.Event(), LocalEngine.compute_partials

    def wait_and_compute(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        assert resumed.wait(60)
        return compute_partials(engine, queries)

    monkeypatch.setattr(LocalEngine, "compute_partials", wait_and_compute)
    root = storage.open_storage(past.settings)
    writer, maintenance = open_writer(past), ChunkMaintenance(root, [SCHEMA], 0.4)

    def chunks_in_use() -> set[int]:
        return TaskGateway(past.connection).list_pinned_chunks()

    def deleted_chunks() -> list[int]:
        return [
            record.chunk.id
            for record in writer.catalog.chunk_records()
            if DELETE_CHUNK in record.completed_versions
        ]

    try:
        task = past.add_task(1)
        assert chunks_in_use() == set()
        with past.manager() as manager:
            run_until(manager, lambda: past.task(task)["pieces"] is not None)
            try:
                assert past.task(task)["state"] == "running"
                assert chunks_in_use() == {chunk.id for chunk in writer.chunks}
                run_maintenance(past, writer, maintenance, 200, chunks_in_use)
                expired = [chunk.id for chunk in writer.chunks if chunk.state == "expired"]
                assert expired and deleted_chunks() == []
                assert all(
                    (root / "streams" / "past" / f"chunk={chunk}").exists() for chunk in expired
                )
            finally:
                resumed.set()
            run_until(manager, lambda: past.task(task)["state"] == "done")
        assert past.revisions(task)[-1]["answer"] == [past.expected_answer()]
        assert chunks_in_use() == set()
        run_maintenance(past, writer, maintenance, 200, chunks_in_use)
        assert deleted_chunks() == expired
    finally:
        maintenance.stop()


def test_coverage_counts_chunks_changed_by_late_rows_after_the_recall(past: History) -> None:
    """Chunks that changed before the recall has read them are not counted."""
    writer = open_writer(past)
    ingest_rows(writer, "before", [(150, "early", 1)])
    task = past.add_task(1)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    ledger = Ledger(past.connection)
    assert ledger.latest_answers(UUID(int=1))["norm"].coverage["changed"] == 0
    ingest_rows(writer, "late", [(5, "late", 1), (250, "late", 2)])
    assert ledger.latest_answers(UUID(int=1))["norm"].coverage["changed"] == 2


def test_cached_partials_of_a_chunk_are_recomputed_after_late_rows(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other chunks are answered from the cache."""
    monkeypatch.setattr("recall.scheduling.turn_plan.choose_run_length", lambda *_, **__: 1)
    pieces_read: list[Piece] = []
    compute_partials = LocalEngine.compute_partials

    def record_and_compute(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        for query in queries:
            pieces_read.extend(piece for _, piece in query.event_pieces)
        return compute_partials(engine, queries)

    monkeypatch.setattr(LocalEngine, "compute_partials", record_and_compute)
    writer, before = open_writer(past), past.expected_answer()
    first = past.add_task(1)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(first)["state"] == "done")
        ingest_rows(writer, "late", [(150, "h0", 7)])
        pieces_read.clear()
        second = past.add_task(2)
        run_until(manager, lambda: past.task(second)["state"] == "done")
    assert past.revisions(first)[-1]["answer"] == [before]
    assert past.revisions(second)[-1]["answer"] == [
        {"n": before["n"] + 1, "total": before["total"] + 7}
    ]
    assert [piece.chunk for piece in pieces_read] == [1]
