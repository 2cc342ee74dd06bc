"""Units of all forms through the real archive: files of Parquet, dead letters that are retried."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg import Connection

from archiver.chunks.chunk import CutPolicy
from archiver.delta.schema import StreamSchema
from archiver.ingest.catalog import Catalog
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.streams import Stream
from moirae.inspect.doctor import run_checks
from moirae.live.sources import files, kafka
from moirae.runtime import database
from tests.faults.harness import workspace

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: int}
    time: ts
    id: [host]
    lateness: 1h
    source: {files: landing/*.parquet}
"""
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SCHEMA = StreamSchema(
    "cpu",
    {"ts": "timestamp", "host": "string", "n": "int"},
    "ts",
    ("host",),
    (),
    timedelta(hours=1),
    timedelta(minutes=5),
)
COUNTERS = "read, archived, late, duplicates, malformed, quarantined, conflicts"


class World:
    """An archive of one stream, that can be opened again as after a fall."""

    def __init__(self, settings: Settings, connection: Connection[Any]) -> None:
        self.settings = settings
        self.connection = connection
        self.open()

    def open(self, schema: StreamSchema = SCHEMA) -> None:
        """A new process."""
        policy = CutPolicy(1000, 3_600_000_000)
        self.archive = ArchiveWriter(
            Path(self.settings.archive), [schema], policy, self.connection, lambda: None
        )

    def ingest(self, *units: SourceUnit, now: datetime = NOW) -> None:
        """Archive these."""
        self.archive.ingest(units, to_micros(now))

    def retry(self, now: datetime = NOW) -> int:
        """Retry all dead letters; how many rows were appended."""
        self.archive.catalog.mark_for_retry([], None, None, 100)
        return self.archive.retry(to_micros(now)).appended_rows

    def counters(self) -> tuple[Any, ...]:
        """Of all units together, in the order of `COUNTERS`."""
        sums = ", ".join(f"sum({name})::int" for name in COUNTERS.split(", "))
        row = self.connection.execute(f"SELECT {sums} FROM units".encode()).fetchone()
        assert row is not None
        return row

    def rows(self) -> list[tuple[Any, ...]]:
        """Archived rows, sorted."""
        table = self.archive.tables["cpu"].read(["host", "n", "_extra", "_late"])
        return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def healthy(self) -> bool:
        """Whether the doctor finds nothing."""
        return not [
            finding for finding in run_checks(self.settings, self.connection) if finding.wrong
        ]


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A workspace whose database runs."""
    with workspace(WORKSPACE, "groups: []\n") as made:
        yield made


@pytest.fixture
def world(root: Path, tmp_path: Path) -> Iterator[World]:
    (root / "moirae.yaml").write_text(f"{WORKSPACE}archive: {tmp_path}\n")
    settings = load_settings_from_environment(root / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with database.connect_database(settings, "tests") as connection:
        yield World(settings, connection)


def _lines(name: str, *rows: Any, form: Any = "jsonl") -> SourceUnit:
    raw = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    return SourceUnit("cpu", name, form, lambda: iter(raw))


def _row(host: str, hour: int = 0, **more: Any) -> dict[str, Any]:
    return {"ts": f"2026-01-01T{hour:02d}:00:00Z", "host": host, "n": 1, **more}


# Retrying


def test_a_letter_whose_cause_is_mended_is_archived_and_counted_once(world: World) -> None:
    world.ingest(_lines("a", _row("a"), _row("b", n=2**40), b"{broken", _row("c")))
    assert world.counters() == (4, 2, 0, 0, 2, 0, 0)
    wide = replace(SCHEMA, columns={**SCHEMA.columns, "n": "int", "m": "bigint"})
    assert world.retry() == 0
    assert world.counters() == (4, 2, 0, 0, 2, 0, 0)
    mended = json.dumps(_row("b", m=2**40)).encode()
    world.connection.execute("UPDATE dead_letters SET raw = %s WHERE line = 2", (mended,))
    world.open(wide)
    assert world.retry() == 1
    assert world.counters() == (4, 3, 0, 0, 1, 0, 0)
    assert world.retry() == 0
    assert world.counters() == (4, 3, 0, 0, 1, 0, 0)
    left = world.archive.catalog.dead_letters(None, None, 10)
    assert [(letter["source"], letter["line"], letter["retry"]) for letter in left] == [
        ("a", 3, False)
    ]


def test_letters_of_a_stream_that_is_not_declared_wait_and_hold_nobody_back(world: World) -> None:
    world.ingest(_lines("a", b"{broken"))
    world.open(replace(SCHEMA, name="other"))
    assert world.retry() == 0
    assert world.archive.count_pending_retries() == 0
    assert world.archive.catalog.dead_letters_to_retry(["other"], 10) == []
    assert world.archive.catalog.count_pending_retries() == 1
    world.open()
    assert world.archive.count_pending_retries() == 1


def test_a_row_of_the_future_is_taken_when_its_time_has_come(world: World) -> None:
    world.ingest(_lines("a", _row("a"), {"ts": "2026-01-03T00:00:00Z", "host": "z", "n": 5}))
    assert world.counters() == (2, 1, 0, 0, 0, 1, 0)
    assert world.retry(NOW + timedelta(days=1)) == 1
    assert world.counters() == (2, 2, 0, 0, 0, 0, 0)
    assert world.archive.progress["cpu"].newest == to_micros(datetime(2026, 1, 3, tzinfo=UTC))
    assert world.healthy()


def test_a_letter_becomes_a_duplicate_a_conflict_or_late_as_any_row(world: World) -> None:
    ahead = [
        {"ts": "2026-01-03T00:00:00Z", "host": host, "n": 1} for host in ("same", "other", "late")
    ]
    world.ingest(_lines("a", *ahead))
    later = NOW + timedelta(days=9)
    world.ingest(
        _lines("b", ahead[0], {**ahead[1], "n": 2}, {**ahead[0], "ts": "2026-01-09T00:00:00Z"}),
        now=later,
    )
    assert world.retry(later) == 1
    assert world.counters() == (6, 4, 1, 1, 0, 0, 1)
    assert [letter["reason"] for letter in world.archive.catalog.dead_letters(None, None, 10)] == [
        "conflict"
    ]
    assert world.healthy()


def test_csv_letters_are_read_by_the_header_of_their_file(world: World) -> None:
    world.ingest(
        _lines(
            "a",
            b"n,host,ts",
            b"1,a,2026-01-03T00:00:00Z",
            b"1,b,2026-01-01T00:00:00Z,x",
            form="csv",
        )
    )
    assert world.counters() == (2, 0, 0, 0, 1, 1, 0)
    assert world.retry(NOW + timedelta(days=2)) == 1
    assert world.rows() == [("a", 1, None, False)]
    assert world.counters() == (2, 1, 0, 0, 1, 0, 0)


def test_a_fall_between_archive_and_ledger_counts_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ingest(_lines("a", _row("a"), {"ts": "2026-01-03T00:00:00Z", "host": "z", "n": 5}))

    def fall(*_: Any) -> None:
        raise ConnectionError("kill -9")

    with monkeypatch.context() as broken:
        broken.setattr(world.archive.catalog, "record_retried", fall)
        with pytest.raises(ConnectionError):
            world.retry(NOW + timedelta(days=1))
    world.open()
    assert len(world.rows()) == 2
    assert world.retry(NOW + timedelta(days=1)) == 0
    assert world.counters() == (2, 2, 0, 0, 0, 0, 0)
    assert world.archive.catalog.dead_letters(None, None, 10) == []
    assert world.healthy()


# Parquet


def _parquet(world: World, name: str, table: pa.Table) -> SourceUnit:
    folder = world.settings.file.parent / "landing"
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name)
    return files.make_unit("cpu", name, "parquet", folder / name)


def _times(*hours: int | None, unit: str = "us", zone: str | None = "UTC") -> pa.Array:
    moments = [None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in hours]
    return pa.array(moments, pa.timestamp(unit, tz="UTC")).cast(
        pa.timestamp(unit, tz=zone), safe=False
    )


@pytest.mark.parametrize(
    ("unit", "zone"), [("us", "UTC"), ("ns", None), ("ms", "Europe/Lisbon"), ("s", None)]
)
def test_rows_of_parquet_equal_those_of_lines(world: World, unit: str, zone: str | None) -> None:
    hosts = pa.array(["a", None, "c"]).dictionary_encode()
    table = pa.table(
        {
            "x": [1.5, None, 2.5],
            "n": pa.array([1, 2, None], pa.int64()),
            "host": hosts,
            "ts": _times(1, 2, 3, unit=unit, zone=zone),
        }
    )
    world.ingest(_parquet(world, "a.parquet", table))
    values = [(1.5, "a", 1), (None, None, 2), (2.5, "c", None)]
    lines = [
        {"ts": f"2026-01-01T0{i}:00:00Z", "x": x, "host": h, "n": n}
        for i, (x, h, n) in enumerate(values, 1)
    ]
    world.ingest(_lines("b", *lines))
    assert world.counters() == (6, 3, 0, 3, 0, 0, 0)
    assert world.healthy()


def test_rows_that_do_not_fit_are_refused_alone(world: World) -> None:
    table = pa.table(
        {
            "ts": _times(1, None, 2, 3).cast(pa.timestamp("us", tz="UTC")),
            "host": ["a", "b", "c", "d"],
            "n": pa.array([1, 2, 2**31, -(2**31)], pa.int64()),
        }
    )
    world.ingest(_parquet(world, "a.parquet", table))
    assert world.counters() == (4, 2, 0, 0, 2, 0, 0)
    letters = sorted(
        world.archive.catalog.dead_letters(None, None, 10), key=lambda letter: letter["line"]
    )
    assert [(letter["line"], letter["detail"]) for letter in letters] == [
        (2, "column ts: no event time"),
        (3, "column n: 2147483648 does not fit int"),
    ]
    assert json.loads(letters[1]["raw"]) == {"ts": "2026-01-01T02:00:00Z", "host": "c", "n": 2**31}


def test_a_time_before_1900_is_refused(world: World) -> None:
    table = pa.table(
        {
            "ts": pa.array([datetime(1800, 1, 1, tzinfo=UTC)], pa.timestamp("ms", tz="UTC")),
            "host": ["a"],
        }
    )
    world.ingest(_parquet(world, "a.parquet", table))
    assert world.counters() == (1, 0, 0, 0, 1, 0, 0)


def test_a_file_that_does_not_fit_is_one_dead_letter(world: World) -> None:
    world.ingest(
        _parquet(
            world,
            "a.parquet",
            pa.table({"ts": ["2026-01-01T00:00:00Z"] * 3, "host": ["a", "b", "c"]}),
        )
    )
    path = world.settings.file.parent / "landing" / "b.parquet"
    path.write_bytes(b"PAR1 no more than a name")
    world.ingest(files.make_unit("cpu", "b", "parquet", path))
    assert world.counters() == (2, 0, 0, 0, 2, 0, 0)
    details = [letter["detail"] for letter in world.archive.catalog.dead_letters(None, None, 10)]
    assert "column ts: the file holds string, timestamp is declared" in details
    assert any(detail.startswith("not a readable Parquet file") for detail in details)
    assert world.healthy()


def test_letters_of_parquet_can_be_retried(world: World) -> None:
    times = pa.array([datetime(2026, 1, 3, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"ts": times, "host": ["a"], "n": pa.array([1], pa.int8())})
    world.ingest(_parquet(world, "a.parquet", table))
    assert world.counters() == (1, 0, 0, 0, 0, 1, 0)
    assert world.retry(NOW + timedelta(days=2)) == 1
    assert world.rows() == [("a", 1, None, False)]


# Partitions of a topic

TOPIC = Stream.model_validate(
    {
        "columns": dict(SCHEMA.columns),
        "time": "ts",
        "id": ["host"],
        "lateness": timedelta(hours=1),
        "source": {"kafka": {"servers": "127.0.0.1:1", "topic": "t"}},
    }
)


def _records(*records: tuple[int, int, Any]) -> pa.Table:
    """Partition, offset and value of each."""
    values = [None if value is None else json.dumps(value).encode() for _, _, value in records]
    numbers = pa.array([part for part, _, _ in records], pa.int32())
    return pa.table(
        {"partition": numbers, "offset": [offset for _, offset, _ in records], "value": values}
    )


def _consume(world: World, *records: tuple[int, int, Any]) -> None:
    read = world.archive.partitions.get("cpu", {})
    world.ingest(*kafka.make_units("cpu", TOPIC, _records(*records), read))


def test_each_record_is_late_by_those_before_it_in_its_partition(world: World) -> None:
    _consume(
        world,
        (0, 1, _row("b", 5)),
        (0, 0, _row("a", 2)),
        (0, 2, _row("c", 3)),
        (0, 3, _row("d", 4)),
    )
    assert world.rows() == [
        ("a", 1, None, False),
        ("b", 1, None, False),
        ("c", 1, None, True),
        ("d", 1, None, False),
    ]
    _consume(world, (0, 4, _row("e", 3)), (0, 5, _row("f", 4)))
    assert world.rows()[4:] == [("e", 1, None, True), ("f", 1, None, False)]
    assert world.healthy()


def test_the_partition_furthest_behind_holds_the_stream_back(world: World) -> None:
    _consume(world, (0, 0, _row("a", 20)), (1, 0, _row("b", 3)))
    assert world.archive.watermark("cpu") == to_micros(datetime(2026, 1, 1, 2, tzinfo=UTC))
    _consume(world, (1, 1, _row("c", 4)))
    assert [row[3] for row in world.rows()] == [False, False, False]
    world.archive.advance_partitions(
        {("cpu", "1"): to_micros(datetime(2026, 1, 1, 10, tzinfo=UTC))}
    )
    assert world.archive.watermark("cpu") == to_micros(datetime(2026, 1, 1, 10, tzinfo=UTC))
    _consume(world, (1, 2, _row("d", 9)), (2, 0, _row("e", 9)), (2, 1, _row("f", 10)))
    assert world.rows()[3:] == [("d", 1, None, True), ("e", 1, None, True), ("f", 1, None, False)]
    before = world.archive.watermark("cpu")
    world.open()
    assert world.archive.watermark("cpu") == before


def test_records_that_come_again_are_counted_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall(*_: Any) -> None:
        raise ConnectionError("kill -9")

    batch = [(0, 7, _row("a")), (0, 9, b"no row".decode()), (1, 0, _row("b")), (1, 1, None)]
    with monkeypatch.context() as broken:
        broken.setattr(world.archive.catalog, "finish_unit", fall)
        with pytest.raises(ConnectionError):
            _consume(world, *batch)
    world.open()
    _consume(world, *batch)
    assert world.counters() == (4, 2, 0, 0, 2, 0, 0)
    _consume(world, *batch, (0, 10, _row("c")))
    assert world.counters() == (5, 3, 0, 0, 2, 0, 0)
    letters = world.archive.catalog.dead_letters(None, None, 10)
    assert {(letter["source"], letter["line"]) for letter in letters} == {
        ("t/0/7-9", 9),
        ("t/1/0-1", 1),
    }
    assert world.healthy()


@pytest.mark.parametrize(
    ("reached", "latest", "behind"),
    [
        ({"t": {"0": 5, "1": 2}}, {"t": {"0": 5, "1": 2}}, (False, False, False)),
        ({"t": {"0": 5, "1": 2}}, {"t": {"0": 5, "1": 3}}, (False, True, True)),
        (None, None, (True, True, True)),
    ],
)
def test_what_is_unread_is_told_by_offsets(
    reached: Any, latest: Any, behind: tuple[bool, ...]
) -> None:
    progress = {
        "sources": [{"endOffset": reached, "latestOffset": json.dumps(latest) if latest else None}]
    }
    assert (
        tuple(kafka.has_unread_records(progress, "t", part) for part in ("0", "1", None)) == behind
    )
    assert kafka.has_unread_records(None, "t", "0")


# How far a stream is complete


def test_the_partition_furthest_behind_holds_the_stream_back_for_all_who_look(world: World) -> None:
    def looked() -> int | None:
        return Catalog(world.connection).watermarks({"cpu": duration_to_micros(SCHEMA.lateness)})[
            "cpu"
        ]

    def seen(hour: int) -> int:
        return to_micros(datetime(2026, 1, 1, hour, tzinfo=UTC) - SCHEMA.lateness)

    def part(name: str, hour: int, number: int) -> SourceUnit:
        raw = [json.dumps(_row(name, hour)).encode()]
        return SourceUnit(
            "cpu", f"t/{name}/{number}", "jsonl", lambda: iter(raw), [number], None, name
        )

    assert looked() is None
    world.ingest(part("0", 5, 0), part("1", 9, 0))
    assert looked() == world.archive.watermark("cpu") == seen(5)
    world.ingest(part("0", 7, 1))
    assert looked() == world.archive.watermark("cpu") == seen(7)
    world.archive.advance({"cpu": seen(8)})
    assert looked() == world.archive.watermark("cpu") == seen(8)
    world.archive.advance_partitions({("cpu", "0"): seen(12)})
    assert looked() == world.archive.watermark("cpu") == seen(9)
