"""Rows that come late, twice, in conflict or for a time that is gone: at any age of their chunk, counted by cause."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from archiver.chunks.chunk import CutPolicy
from archiver.chunks.lifecycle import DELETE_CHUNK, LifecyclePolicy
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.ingest.writer import ArchiveWriter, SourceUnit
from archiver.times import duration_to_micros
from moirae.inspect.doctor import run_checks
from moirae.runtime import storage
from recall.engines.local import LocalEngine
from recall.engines.template import PartialQuery
from recall.ledger.tasks import Ledger, pinned_chunks
from recall.requests import Piece
from tests.integration.history import SCHEMA, START, History, go_on, history

ROWS = 100


@pytest.fixture
def past() -> Iterator[History]:
    """Four full chunks and what follows them."""
    with history(5, ROWS) as made:
        yield made


def archive(past: History) -> ArchiveWriter:
    """The writer of the archive."""
    policy = CutPolicy(ROWS, duration_to_micros(timedelta(days=365)))
    return ArchiveWriter(
        storage.open_storage(past.settings), [SCHEMA], policy, past.connection, lambda: None
    )


def bring(writer: ArchiveWriter, name: str, rows: list[tuple[int, str, int]]) -> None:
    """A source unit of rows (second, host, value)."""
    lines = [
        orjson.dumps({"ts": (START + timedelta(seconds=second)).isoformat(), "host": host, "v": v})
        for second, host, v in rows
    ]
    writer.ingest([SourceUnit("past", name, "jsonl", lambda: iter(lines))], 1 << 60)


def roll(
    past: History,
    writer: ArchiveWriter,
    roller: ChunkMaintenance,
    keep: int,
    pinned: Callable[[], set[int]] = set,
) -> None:
    """Until nothing is left to do; `keep` seconds of event time."""
    policy = LifecyclePolicy(1, keep * 1_000_000, 0.0)
    while work := writer.update_chunk_states(
        policy, roller.requirements, [writer.watermark("past")], pinned
    ):
        roller.submit(work)
        roller.wait()
        writer.record_results(roller.collect_results())


def account(past: History) -> dict[str, Any]:
    """The counters of the stream."""
    (row,) = archive(past).catalog.accounting()
    return row


def test_late_rows_find_their_chunk_at_any_age(past: History) -> None:
    """Recent and old chunks take them, know repetitions, are clustered again; expired ones refuse them."""
    writer, roller = (
        archive(past),
        ChunkMaintenance(storage.open_storage(past.settings), [SCHEMA], 0.4),
    )
    try:
        roll(past, writer, roller, 10_000)
        assert [c.state for c in writer.chunks[:4]] == ["old", "old", "old", "recent"]
        before = account(past)
        second, host, v = past.rows[5]
        bring(
            writer, "late", [(5, "late", 1), (250, "late", 2), (350, "late", 3), (second, host, v)]
        )
        after = account(past)
        assert (after["archived"] - before["archived"], after["late"] - before["late"]) == (3, 3)
        assert after["duplicates"] - before["duplicates"] == 1
        versions = writer.catalog.chunk_versions()
        assert [versions[chunk] for chunk in range(4)] == [1, 0, 1, 1]
        for number in range(20):
            bring(writer, f"more {number}", [(350, f"late {number}", 3)])
        assert writer.tables["past"].count_unclustered(3) == 21
        roll(past, writer, roller, 10_000)
        assert (
            writer.tables["past"].count_unclustered(3) == 0
            and writer.tables["past"].count_unclustered(0) == 1
        )

        roll(past, writer, roller, 300)
        assert writer.chunks[0].state == "expired"
        bring(writer, "gone", [(5, "gone", 1), (480, "h1", 2)])
        last = account(past)
        assert (
            last["expired"] == 1
            and last["read"] == last["archived"] + last["duplicates"] + last["expired"]
        )
        (letter,) = writer.catalog.dead_letters("past", "expired", 10)
        assert b'"gone"' in letter["raw"]
        assert not [f for f in run_checks(past.settings, past.connection) if f.problems]
    finally:
        roller.stop()


def test_files_of_an_expired_chunk_leave_the_disk(past: History) -> None:
    """When the grace is over and nobody has it pinned; the ledger stays true without them."""
    root = storage.open_storage(past.settings)
    writer, roller = archive(past), ChunkMaintenance(root, [SCHEMA], 0.4)
    try:
        roll(past, writer, roller, 200)
        gone = [
            k.chunk.id
            for k in writer.catalog.chunk_records()
            if DELETE_CHUNK in k.completed_versions
        ]
        assert gone and account(past)["forgotten"] == ROWS * len(gone)
        deadline = time.monotonic() + 60
        while any((root / "streams" / "past" / f"chunk={chunk}").exists() for chunk in gone):
            assert time.monotonic() < deadline, "the files stay"
            time.sleep(0.1)
        assert not [f for f in run_checks(past.settings, past.connection) if f.problems]
    finally:
        roller.stop()


def test_files_stay_until_the_recall_that_reads_them_is_done(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a task has pinned is expired for others, and still there for it."""
    go, real = threading.Event(), LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        assert go.wait(60)
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    root = storage.open_storage(past.settings)
    writer, roller = archive(past), ChunkMaintenance(root, [SCHEMA], 0.4)

    def pinned() -> set[int]:
        return pinned_chunks(past.connection)

    def forgotten() -> list[int]:
        return [
            one.chunk.id
            for one in writer.catalog.chunk_records()
            if DELETE_CHUNK in one.completed_versions
        ]

    try:
        task = past.ask(1)
        assert pinned() == set()
        with past.manager() as manager:
            go_on(manager, lambda: past.task(task)["pieces"] is not None)
            try:
                assert past.task(task)["state"] == "running"
                assert pinned() == {chunk.id for chunk in writer.chunks}
                roll(past, writer, roller, 200, pinned)
                gone = [chunk.id for chunk in writer.chunks if chunk.state == "expired"]
                assert gone and forgotten() == []
                assert all(
                    (root / "streams" / "past" / f"chunk={chunk}").exists() for chunk in gone
                )
            finally:
                go.set()
            go_on(manager, lambda: past.task(task)["state"] == "done")
        assert past.revisions(task)[-1]["answer"] == [past.whole()]
        assert pinned() == set()
        roll(past, writer, roller, 200, pinned)
        assert forgotten() == gone
    finally:
        roller.stop()


def test_a_recall_says_that_rows_came_late_into_what_it_has_read(past: History) -> None:
    """After its end too; chunks that it has not read, or that changed before, are not counted."""
    writer = archive(past)
    bring(writer, "before", [(150, "early", 1)])
    task = past.ask(1)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "done")
    ledger = Ledger(past.connection)
    assert ledger.latest_answers(UUID(int=1))["norm"]["coverage"]["changed"] == 0
    bring(writer, "late", [(5, "late", 1), (250, "late", 2)])
    assert ledger.latest_answers(UUID(int=1))["norm"]["coverage"]["changed"] == 2


def test_who_asks_the_same_later_is_told_of_rows_that_came_late(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the manager has kept, only what has new rows is read again: the chunk, as each is asked by itself."""
    monkeypatch.setattr("recall.worker.dispatcher.choose_run_length", lambda *_: 1)
    read: list[Piece] = []
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        read.extend(piece for one in asks for _, piece in one.event_pieces)
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    writer, before = archive(past), past.whole()
    first = past.ask(1)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(first)["state"] == "done")
        bring(writer, "late", [(150, "h0", 7)])
        read.clear()
        second = past.ask(2)
        go_on(manager, lambda: past.task(second)["state"] == "done")
    assert past.revisions(first)[-1]["answer"] == [before]
    assert past.revisions(second)[-1]["answer"] == [
        {"n": before["n"] + 1, "total": before["total"] + 7}
    ]
    assert [chunk for chunk, _, _ in read] == [1]
