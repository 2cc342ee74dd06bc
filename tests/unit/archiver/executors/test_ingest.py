"""Ingest on executors, with tasks run in this process, compared with ingest in this process."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from archiver.chunks.chunk import FIRST_CHUNK, Chunk, CutPolicy
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.executors import ExecutorIngest, batch_plan, grouping, pieces, task_planner
from archiver.executors import ingest as executor_ingest
from archiver.executors.tasks import decode, reading, write
from archiver.formats import JSONL
from archiver.ingest import source_units
from archiver.ingest.chunk_cutter import ChunkCutter
from archiver.ingest.engines import local_ingest
from archiver.ingest.engines.batch import IngestBatch, IngestEngine
from archiver.ingest.engines.engine_choice import RecordSizes
from archiver.ingest.engines.local_ingest import LocalIngest
from archiver.ingest.engines.stream_progress import RegisteredUnit, StreamProgress
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.watermarks import PartitionProgress, ReadProgress, watermark
from archiver.times import duration_to_micros, to_micros
from moirae.live.sources import files
from moirae.live.sources.topics.units import make_topic_records, make_units
from tests.ingest_scenario import (
    COLUMNS,
    NOW,
    SCHEMAS,
    START,
    TOPIC,
    Sizes,
    assert_equal,
    make_records,
    split_by_partition,
    unread_ranges,
    write_batches,
)
from tests.inline_jobs import InlineJobs


class Connection:
    """A database without transactions."""

    def transaction(self) -> Any:
        return nullcontext()


class Chunks:
    """The catalog's chunks in memory."""

    def __init__(self) -> None:
        self.by_id: dict[int, Chunk] = {0: FIRST_CHUNK}

    def chunks(self) -> list[Chunk]:
        return list(self.by_id.values())

    def put_chunks(self, chunks: Sequence[Chunk]) -> None:
        self.by_id |= {chunk.id: chunk for chunk in chunks}

    def stream_ends(self) -> dict[str, int]:
        return {}


class Archive:
    """What an archive writer does around an engine, without a database."""

    def __init__(
        self,
        folder: Path,
        chunk_rows: int,
        clock: int = to_micros(NOW),
        schemas: Sequence[StreamSchema] = SCHEMAS,
    ) -> None:
        self.tables = {schema.name: StreamTable(folder, schema) for schema in schemas}
        self.chunks = Chunks()
        policy = CutPolicy(chunk_rows, 600_000_000)
        tables = self.tables.values()
        chunks = self.chunks.chunks()
        self.cutter = ChunkCutter(Connection(), self.chunks, policy, tables, chunks)  # type: ignore[arg-type]
        self.progress = {schema.name: ReadProgress() for schema in schemas}
        self.partitions: dict[str, dict[str, PartitionProgress]] = {}
        self.units: list[dict[str, Any]] = []
        self.late_chunks: list[set[int]] = []
        self.ids: dict[str, int] = {}
        self.clock = clock

    def register(self, unit: SourceUnit) -> RegisteredUnit:
        """The same unit gets the same id."""
        unit_id = self.ids.setdefault(f"{unit.stream}/{unit.name}", len(self.ids) + 1)
        return RegisteredUnit(unit_id, self.clock)

    def watermark(self, stream: str) -> int | None:
        lateness = duration_to_micros(self.tables[stream].schema.lateness)
        return watermark(self.progress[stream], self.partitions.get(stream, {}), lateness)

    def start_batch(self) -> IngestBatch:
        return IngestBatch(
            number=1,
            now=to_micros(NOW),
            tables=self.tables,
            cutter=self.cutter,
            progress=StreamProgress(
                streams=dict(self.progress),
                partitions=self.partitions,
                watermarks={stream: self.watermark(stream) for stream in self.tables},
                lateness={
                    name: duration_to_micros(table.schema.lateness)
                    for name, table in self.tables.items()
                },
            ),
            register_units=lambda units: list(map(self.register, units)),
            partition_clocks=lambda _: {},
            clock=lambda _: self.clock,
            fence=lambda: None,
        )

    def finish_batch(self, batch: IngestBatch) -> None:
        self.progress = batch.progress.streams
        for stream, progress in self.progress.items():
            self.progress[stream] = self.follow_rows_ahead(stream, progress)
        self.late_chunks.append(batch.chunks_with_late_rows)
        for opened in batch.open_units:
            if opened.unit.partition is not None:
                partitions = self.partitions.setdefault(opened.unit.stream, {})
                after = opened.partition_after()
                progress = self.follow_rows_ahead(opened.unit.stream, after.progress)
                partitions[opened.unit.partition] = replace(after, progress=progress)
            refused = sorted(map(repr, opened.refused_lines))
            times = (opened.newest, opened.newest_not_ahead, opened.keys_ahead)
            outcome = (opened.id, opened.counters, times, opened.fields, refused)
            self.units.append(dict(enumerate(outcome)))

    def follow_rows_ahead(self, stream: str, progress: ReadProgress) -> ReadProgress:
        """Advance to the clock, as if only rows ahead of it had come for long."""
        lateness = duration_to_micros(self.tables[stream].schema.lateness)
        event_time = progress.follow_rows_ahead(lateness, self.clock, is_silent=True)
        if event_time is None:
            return progress
        return progress.with_advanced(event_time, ahead=True)

    def outcome(self) -> Mapping[str, Any]:
        """Everything that must not depend on the engine."""
        rows = []
        columns = [*COLUMNS, "_extra", "_late", "_id", "_hash", "_unit", "_line"]
        for stream, table in self.tables.items():
            for chunk in table.files_by_chunk():
                for row in table.read(columns, chunk).to_pylist():
                    rows.append(repr({**row, "stream": stream, "chunk": chunk}))
        return {
            "rows": sorted(rows),
            "units": self.units,
            "chunks": list(map(asdict, self.chunks.chunks())),
            "newest chunk": self.cutter._newest_stats,
            "late chunks": self.late_chunks,
            "progress": self.progress,
            "partitions": self.partitions,
        }


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices, groups, pieces and buckets of few rows, so that a batch has many of each."""
    for module in (decode, grouping, pieces, write, local_ingest, source_units):
        monkeypatch.setattr(module, "BATCH_RECORDS", 40)
    for module in (pieces, task_planner):
        monkeypatch.setattr(module, "PIECE_RECORDS", 10)
    monkeypatch.setattr(reading, "_READ_SIZE", 50)
    monkeypatch.setattr(pieces, "MIN_DIVIDED_BYTES", 400)
    monkeypatch.setattr(pieces, "_MIN_RANGE_BYTES", 100)
    monkeypatch.setattr(batch_plan, "_MIN_BUCKET_ROWS", 10)


def ingest(
    folder: Path,
    batches: Sequence[Sequence[SourceUnit]],
    jobs: InlineJobs | None,
    chunk_rows: int = 150,
    clock: datetime = NOW,
) -> Archive:
    """An archive after some batches. `jobs`: of executors; None: in this process."""
    archive = Archive(folder, chunk_rows, to_micros(clock))
    engine: IngestEngine = LocalIngest(archive.tables)
    if jobs is not None:
        engine = ExecutorIngest(jobs, RecordSizes())
    for units in batches:
        archive.clock += 60_000_000
        batch = archive.start_batch()
        engine.archive(units, batch)
        archive.finish_batch(batch)
    return archive


@pytest.mark.parametrize("seed", range(3))
def test_files_are_archived_as_in_this_process(tmp_path: Path, seed: int) -> None:
    batches = write_batches(tmp_path / "landing", seed, Sizes(batches=3, files=4, rows=100))
    expected = ingest(tmp_path / "local", batches, None).outcome()
    actual = ingest(tmp_path / "executors", batches, InlineJobs(1 + seed)).outcome()
    assert_equal(actual, expected)


@pytest.mark.parametrize("seed", [1, 3])
def test_rows_ahead_of_the_clock_are_archived_as_in_this_process(tmp_path: Path, seed: int) -> None:
    batches = write_batches(tmp_path / "landing", seed, Sizes(batches=5, files=4, rows=100))
    clock = START - timedelta(minutes=1)
    expected = ingest(tmp_path / "local", batches, None, clock=clock).outcome()
    jobs = InlineJobs(1 + seed)
    actual = ingest(tmp_path / "executors", batches, jobs, clock=clock).outcome()
    assert_equal(actual, expected)
    units = expected["units"]
    assert any(unit[2][0] != unit[2][1] for unit in units), "no row is ahead"
    assert any(unit[1].late > unit[1].late_by_ahead for unit in units)
    assert any(unit[1].late_by_ahead for unit in units)


@pytest.mark.parametrize("seed", range(3))
def test_records_of_a_topic_are_archived_as_in_this_process(tmp_path: Path, seed: int) -> None:
    tables = make_records(seed, batches=4, rows=150)
    clock = to_micros(START + timedelta(minutes=3) if seed else NOW)
    local = Archive(tmp_path / "local", 150, clock)
    executors = Archive(tmp_path / "executors", 150, clock)
    in_process = LocalIngest(local.tables)
    on_executors = ExecutorIngest(InlineJobs(), RecordSizes())
    for table in tables:
        batch = local.start_batch()
        ranges = unread_ranges(table, local.partitions.get("a", {}))
        units = make_units("a", TOPIC, "t", table, ranges)
        in_process.archive(units, batch)
        local.finish_batch(batch)
        batch = executors.start_batch()
        records = make_topic_records("a", TOPIC, "t", split_by_partition(table), ranges)
        on_executors.archive_records(records, batch)
        executors.finish_batch(batch)
    expected = local.outcome()
    actual = executors.outcome()
    assert_equal(actual, expected)
    assert any("_late': True" in row for row in expected["rows"])


_MORE_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 1, 2, 3, 4, 6, 7)]


@pytest.mark.parametrize("seed", [5, *_MORE_SEEDS])
def test_small_batches_are_archived_in_one_job(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some batches are archived again, as after a crash before the ledger."""
    monkeypatch.setattr(executor_ingest, "_MAX_SMALL_BATCH_FILES", 1)
    rng = random.Random(seed)
    jobs = InlineJobs(cores=1)
    local = Archive(tmp_path / "local", chunk_rows=60)
    executors = Archive(tmp_path / "executors", chunk_rows=60)
    engines: list[tuple[Archive, IngestEngine]] = [
        (local, LocalIngest(local.tables)),
        (executors, ExecutorIngest(jobs, RecordSizes())),
    ]
    rows: list[dict[str, Any]] = []
    job_counts: Counter[int] = Counter()
    for number in range(20):
        units: list[SourceUnit] = []
        for stream in ("a", "b"):
            for name in [f"{stream}-{number}-{i}.jsonl" for i in range(rng.randint(0, 2))]:
                lines = [_draw_line(rng, rows) for _ in range(rng.randint(0, 9))]
                path = tmp_path / name
                path.write_text("".join(lines))
                # Not divided: one task decodes them.
                units.append(files.make_unit(stream, name, JSONL, path, 0))
        for _ in range(rng.choice((1, 1, 2))):
            earlier_jobs = jobs.map_count
            batches = [archive.start_batch() for archive, _ in engines]
            for (_, engine), batch in zip(engines, batches, strict=True):
                engine.archive(units, batch)
            if any(unit.newest is not None for unit in batches[0].open_units):
                job_counts[jobs.map_count - earlier_jobs] += 1
        for (archive, _), batch in zip(engines, batches, strict=True):
            archive.finish_batch(batch)
    expected = local.outcome()
    actual = executors.outcome()
    assert_equal(actual, expected)
    # Two if rows are older than the newest file, three if a chunk may be cut.
    assert job_counts.keys() == {1, 2, 3}
    assert job_counts[1] >= 3


def test_files_without_lines_are_finished(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    path.write_text("\n" * 1000)
    unit = files.make_unit("a", path.name, JSONL, path, path.stat().st_size)
    expected = ingest(tmp_path / "local", [[unit]], None).outcome()
    actual = ingest(tmp_path / "executors", [[unit]], InlineJobs()).outcome()
    assert_equal(actual, expected)
    assert len(expected["units"]) == 1


def _draw_line(rng: random.Random, rows: list[dict[str, Any]]) -> str:
    """A line with a new row, mostly the newest one, or with an earlier row, or without one."""
    kind = rng.random()
    if kind < 0.03:
        return "broken\n"
    if kind < 0.15 and rows:
        row = dict(rng.choice(rows[-30:]))
        row["v"] += rng.choice((0, 0, 1))
    else:
        newest = datetime.fromisoformat(rows[-1]["ts"]) if rows else START
        ts = newest + timedelta(seconds=rng.choice((0, 1, 1, 2)))
        row = {"ts": ts.isoformat(), "host": f"h{rng.randrange(3)}", "n": len(rows), "v": 0.5}
        rows.append(row)
    return json.dumps(row) + "\n"


@pytest.mark.parametrize(("rows_per_time", "shares_times"), [(1, False), (7, True)])
@pytest.mark.parametrize("chunk_rows", [150, pytest.param(100_000, marks=pytest.mark.slow)])
def test_rows_in_order_of_time_are_classified_where_they_are_decoded(
    tmp_path: Path, rows_per_time: int, shares_times: bool, chunk_rows: int
) -> None:
    # Each file repeats the second half of the one before, some rows with other content, and some
    # rows of its own.
    batches: list[list[SourceUnit]] = []
    for number in range(3):
        lines: list[str] = []
        for position in range(number * 300, number * 300 + 600):
            ts = START + timedelta(seconds=position // rows_per_time)
            row = {"ts": ts.isoformat(), "host": f"h{position}", "n": position, "v": 0.5}
            if number and position % 50 == 0:
                row["v"] = 1.5
            lines += [json.dumps(row)] * (2 if position % 20 == 0 else 1)
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        batches.append([files.make_unit("a", path.name, JSONL, path, path.stat().st_size)])
    expected = ingest(tmp_path / "local", batches, None, chunk_rows).outcome()
    jobs = InlineJobs(cores=3)
    actual = ingest(tmp_path / "executors", batches, jobs, chunk_rows).outcome()
    assert_equal(actual, expected)
    counters = [unit[1] for unit in expected["units"]]
    assert all(unit.duplicates for unit in counters) and any(unit[4] for unit in expected["units"])
    assert bool(jobs.shuffle_count) == shares_times
