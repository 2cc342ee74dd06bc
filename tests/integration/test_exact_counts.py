"""Rows are counted exactly when a twentieth of them come again, up to 60 days late.

Each host has one row a step, in files of a day. One row of a hundred is held back for days. Rows
of the days before come again as they were, or with another value. Meanwhile chunks are closed,
clustered and rewritten without the identities that can be computed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from archiver.chunks.chunk import CutPolicy
from archiver.chunks.lifecycle import LifecyclePolicy
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.formats import PARQUET
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.config.settings import load_settings_from_environment
from moirae.live.sources import files
from moirae.runtime import database, storage
from tests.integration.test_units import SCHEMA, WORKSPACE, Archive
from tests.workspaces import workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 75
MAX_DELAY = 60  # days
DAY = duration_to_micros(timedelta(days=1))
# Seldom enough that most days end in a chunk that was rewritten, and some do not.
MAINTENANCE_INTERVAL = 4  # days

Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """Which rows there are. A row is a cell: host and step as one number."""

    hosts: int
    steps: int
    """A day."""

    @property
    def cells_a_day(self) -> int:
        return self.hosts * self.steps

    def cells(self, day: int) -> Cells:
        """Of a day, by time."""
        return np.arange(day * self.cells_a_day, (day + 1) * self.cells_a_day)

    def delay(self, cells: Cells) -> Cells:
        """By how many days a row is held back; 0: not at all."""
        days = 2 + (cells * 7_919) % (MAX_DELAY - 1)
        return np.where((cells * 2_654_435_761) % 100 == 17, days, 0)

    def rows(self, cells: Cells, change: int = 0) -> pa.Table:
        """`change`: what is added to the value."""
        step_micros = DAY // self.steps
        times = to_micros(START) + cells // self.hosts * step_micros
        return pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "host": pc.cast(pa.array(cells % self.hosts), pa.string()),
                "n": pa.array(cells % 1_000 + change, pa.int32()),
            }
        )


@dataclass
class Expected:
    """What the ledger has to say."""

    read: int = 0
    archived: int = 0
    late: int = 0
    duplicates: int = 0
    conflicts: int = 0

    def counters(self) -> tuple[int, ...]:
        """In the order of `Archive.counters`."""
        return self.read, self.archived, self.late, self.duplicates, 0, 0, self.conflicts


class Delivery:
    """Writes the file of each day, and counts what has to become of it."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.expected = Expected()
        self._folder = folder
        self._random = np.random.default_rng(55)
        self._delays = [world.delay(world.cells(day)) for day in range(DAYS)]

    def write(self, day: int) -> SourceUnit:
        """The file of a day: its rows, those of earlier days that were held back, and repetitions."""
        world, expected = self.world, self.expected
        on_time = world.cells(day)[self._delays[day] == 0]
        late: list[Cells] = []
        for earlier in range(max(0, day - MAX_DELAY), day):
            late.append(world.cells(earlier)[self._delays[earlier] == day - earlier])
        late_cells = np.concatenate([np.empty(0, np.int64), *late])
        repeated = self._draw_delivered(day)
        conflicting, equal = np.split(repeated, [len(repeated) // 5])
        expected.read += len(on_time) + len(late_cells) + len(repeated)
        expected.archived += len(on_time) + len(late_cells)
        expected.late += len(late_cells)
        expected.duplicates += len(equal)
        expected.conflicts += len(conflicting)
        tables = [
            world.rows(on_time),
            world.rows(np.concatenate([late_cells, equal])),
            world.rows(conflicting, change=1),
        ]
        return self._make_unit(f"{day}.parquet", pa.concat_tables(tables))

    def _draw_delivered(self, day: int) -> Cells:
        """A twentieth as many cells as a day has, of those that came on one of the days before."""
        world = self.world
        first = max(0, day - MAX_DELAY) * world.cells_a_day
        last = day * world.cells_a_day
        if first == last:
            return np.empty(0, np.int64)
        cells = self._random.integers(first, last, world.cells_a_day // 20)
        is_delivered = cells // world.cells_a_day + world.delay(cells) < day
        return cells[is_delivered]

    def write_again(self, day: int) -> SourceUnit:
        """The rows of a day that were delivered by the end, under another name."""
        cells = self.world.cells(day)
        delivered = cells[day + self._delays[day] < DAYS]
        self.expected.read += len(delivered)
        self.expected.duplicates += len(delivered)
        return self._make_unit(f"again {day}.parquet", self.world.rows(delivered))

    def _make_unit(self, name: str, rows: pa.Table) -> SourceUnit:
        path = self._folder / name
        pq.write_table(rows, path)
        return files.make_unit("cpu", name, PARQUET, path, 1)

    def delivered(self) -> Cells:
        """All cells that were delivered."""
        delivered: list[Cells] = []
        for day in range(DAYS):
            delivered.append(self.world.cells(day)[day + self._delays[day] < DAYS])
        return np.concatenate(delivered)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A workspace with a running database."""
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(World(hosts=6, steps=24), id="11,000"),
        pytest.param(
            World(hosts=94, steps=1_440),
            id="10,000,000",
            marks=[pytest.mark.slow, pytest.mark.timeout(2400)],
        ),
    ],
)
def test_late_rows_repetitions_and_conflicts_are_counted_exactly(
    root: Path, tmp_path: Path, world: World
) -> None:
    settings = load_settings_from_environment(root / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        archive = Archive(settings, connection)
        policy = CutPolicy(world.cells_a_day * 3 // 2, 3 * DAY)
        place = storage.open_storage(settings)
        writer = archive.writer = ArchiveWriter(place, [SCHEMA], policy, connection, lambda: None)
        maintenance = ChunkMaintenance(place, [SCHEMA], 60.0)
        delivery = Delivery(world, tmp_path)
        try:
            for day in range(DAYS):
                archive.ingest(delivery.write(day), now=START + timedelta(days=day + 1))
                (tmp_path / f"{day}.parquet").unlink()
                if day % MAINTENANCE_INTERVAL == 0:
                    maintain(writer, maintenance)
            maintain(writer, maintenance)
            for day in (0, DAYS // 2, DAYS - 1):
                archive.ingest(delivery.write_again(day), now=START + timedelta(days=DAYS))
        finally:
            maintenance.stop()
        expected = delivery.expected
        assert archive.counters() == expected.counters()
        assert min(expected.late, expected.duplicates, expected.conflicts) > 50
        assert_equal_rows(writer, world, delivery.delivered())
        assert archive.is_healthy()


def maintain(writer: ArchiveWriter, maintenance: ChunkMaintenance) -> None:
    """Run all maintenance that is due."""
    policy = LifecyclePolicy(2, None, 0.0)
    while tasks := writer.update_chunk_states(
        policy, maintenance.requirements, [writer.watermark("cpu")], set
    ):
        maintenance.submit(tasks, writer.catalog.settled_places())
        maintenance.wait()
        writer.record_results(maintenance.collect_results())


def assert_equal_rows(writer: ArchiveWriter, world: World, cells: Cells) -> None:
    """The archive has each row once, with its first value."""
    table = writer.tables["cpu"].read(["ts", "host", "n", "_id"])
    step_micros = DAY // world.steps
    steps = (table["ts"].cast(pa.int64()).to_numpy() - to_micros(START)) // step_micros
    archived = steps * world.hosts + table["host"].cast(pa.int64()).to_numpy()
    order = np.argsort(archived)
    assert np.array_equal(archived[order], cells)
    assert np.array_equal(table["n"].to_numpy()[order], cells % 1_000)
    assert pc.count_distinct(table["_id"]).as_py() == len(cells)
