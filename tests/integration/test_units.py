"""Source units of all formats in a real archive: Parquet files, Kafka partitions, dead letters."""

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
from archiver.formats import CSV, JSONL, PARQUET, Format
from archiver.ingest.ledger import Catalog
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.streams import Stream
from moirae.inspect.doctor import run_checks
from moirae.live.sources import files
from moirae.live.sources.topics.units import make_units
from moirae.runtime import database
from sql.archive import DeadLetterGateway, DeadLetterRow
from tests.ingest_scenario import begin_topic, unread_ranges
from tests.workspaces import workspace, write_workspace

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


class Archive:
    """An archive of one stream, which can be opened again as after a crash."""

    def __init__(self, settings: Settings, connection: Connection[Any]) -> None:
        self.settings = settings
        self.connection = connection
        self.open()

    def open(self, schema: StreamSchema = SCHEMA) -> None:
        """Open the archive as a new process does."""
        policy = CutPolicy(1000, 3_600_000_000)
        self.writer = ArchiveWriter(
            Path(self.settings.archive), [schema], policy, self.connection, lambda: None
        )

    def ingest(self, *units: SourceUnit, now: datetime = NOW) -> None:
        """Archive the units."""
        self.writer.ingest(units, to_micros(now))

    def retry(self, now: datetime = NOW) -> int:
        """Retry all dead letters. Returns the number of appended rows."""
        DeadLetterGateway(self.connection).mark_for_retry([], stream=None, reason=None, limit=100)
        return self.writer.retry(to_micros(now)).appended_rows

    def counters(self) -> tuple[Any, ...]:
        """The sums over all units, in the order of `COUNTERS`."""
        sums = ", ".join(f"sum({name})::int" for name in COUNTERS.split(", "))
        row = self.connection.execute(f"SELECT {sums} FROM units".encode()).fetchone()
        assert row is not None
        return row

    def dead_letters(self) -> list[DeadLetterRow]:
        """Dead letters, newest first."""
        return DeadLetterGateway(self.connection).list_newest(None, None, 10)

    def rows(self) -> list[tuple[Any, ...]]:
        """Archived rows, sorted."""
        table = self.writer.tables["cpu"].read(["host", "n", "_extra", "_late"])
        return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def is_healthy(self) -> bool:
        """Whether `moirae doctor` reports no problem."""
        return not [
            finding for finding in run_checks(self.settings, self.connection) if finding.problems
        ]


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A workspace with a running database."""
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.fixture
def archive(root: Path, tmp_path: Path) -> Iterator[Archive]:
    write_workspace(root, f"{WORKSPACE}archive: {tmp_path}\n")
    settings = load_settings_from_environment(root / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with database.connect_database(settings, "tests") as connection:
        yield Archive(settings, connection)


def _lines(name: str, *rows: Any, record_format: Format = JSONL) -> SourceUnit:
    raw = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    return SourceUnit("cpu", name, record_format, lambda: iter(raw))


def _row(host: str, hour: int = 0, **fields: Any) -> dict[str, Any]:
    return {"ts": f"2026-01-01T{hour:02d}:00:00Z", "host": host, "n": 1, **fields}


# Retrying


def test_retried_dead_letter_is_archived_and_counted_once(archive: Archive) -> None:
    archive.ingest(_lines("a", _row("a"), _row("b", n=2**40), b"{broken", _row("c")))
    assert archive.counters() == (4, 2, 0, 0, 2, 0, 0)
    wide = replace(SCHEMA, columns={**SCHEMA.columns, "n": "int", "m": "bigint"})
    assert archive.retry() == 0
    assert archive.counters() == (4, 2, 0, 0, 2, 0, 0)
    corrected = json.dumps(_row("b", m=2**40)).encode()
    archive.connection.execute("UPDATE dead_letters SET raw = %s WHERE line = 2", (corrected,))
    archive.open(wide)
    assert archive.retry() == 1
    assert archive.counters() == (4, 3, 0, 0, 1, 0, 0)
    assert archive.retry() == 0
    assert archive.counters() == (4, 3, 0, 0, 1, 0, 0)
    letters = archive.dead_letters()
    assert [(letter.source, letter.line, letter.retry) for letter in letters] == [("a", 3, False)]


def test_retry_skips_dead_letters_of_undeclared_streams(archive: Archive) -> None:
    archive.ingest(_lines("a", b"{broken"))
    archive.open(replace(SCHEMA, name="other"))
    assert archive.retry() == 0
    assert archive.writer.count_pending_retries() == 0
    dead_letters = DeadLetterGateway(archive.connection)
    assert dead_letters.list_marked(["other"], 10) == []
    assert dead_letters.count_marked() == 1
    archive.open()
    assert archive.writer.count_pending_retries() == 1


def test_retry_archives_a_future_row_once_its_time_has_come(archive: Archive) -> None:
    archive.ingest(_lines("a", _row("a"), {"ts": "2026-01-03T00:00:00Z", "host": "z", "n": 5}))
    assert archive.counters() == (2, 1, 0, 0, 0, 1, 0)
    assert archive.retry(NOW + timedelta(days=1)) == 1
    assert archive.counters() == (2, 2, 0, 0, 0, 0, 0)
    assert archive.writer.progress["cpu"].newest == to_micros(datetime(2026, 1, 3, tzinfo=UTC))
    assert archive.is_healthy()


def test_retried_dead_letters_are_classified_like_any_row(archive: Archive) -> None:
    future_rows = [
        {"ts": "2026-01-03T00:00:00Z", "host": host, "n": 1} for host in ("same", "other", "late")
    ]
    archive.ingest(_lines("a", *future_rows))
    later = NOW + timedelta(days=9)
    archive.ingest(
        _lines(
            "b",
            future_rows[0],
            {**future_rows[1], "n": 2},
            {**future_rows[0], "ts": "2026-01-09T00:00:00Z"},
        ),
        now=later,
    )
    assert archive.retry(later) == 1
    assert archive.counters() == (6, 4, 1, 1, 0, 0, 1)
    assert [letter.reason for letter in archive.dead_letters()] == ["conflict"]
    assert archive.is_healthy()


def test_retried_csv_lines_use_the_header_of_their_file(archive: Archive) -> None:
    archive.ingest(
        _lines(
            "a",
            b"n,host,ts",
            b"1,a,2026-01-03T00:00:00Z",
            b"1,b,2026-01-01T00:00:00Z,x",
            record_format=CSV,
        )
    )
    assert archive.counters() == (2, 0, 0, 0, 1, 1, 0)
    assert archive.retry(NOW + timedelta(days=2)) == 1
    assert archive.rows() == [("a", 1, None, False)]
    assert archive.counters() == (2, 1, 0, 0, 1, 0, 0)


def test_crash_between_append_and_ledger_update_counts_nothing_twice(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.ingest(_lines("a", _row("a"), {"ts": "2026-01-03T00:00:00Z", "host": "z", "n": 5}))

    def crash(*_: Any, **__: Any) -> None:
        raise ConnectionError("kill -9")

    with monkeypatch.context() as patched:
        patched.setattr(archive.writer.catalog, "record_retried", crash)
        with pytest.raises(ConnectionError):
            archive.retry(NOW + timedelta(days=1))
    archive.open()
    assert len(archive.rows()) == 2
    assert archive.retry(NOW + timedelta(days=1)) == 0
    assert archive.counters() == (2, 2, 0, 0, 0, 0, 0)
    assert archive.dead_letters() == []
    assert archive.is_healthy()


def _crash_before_the_ledger(archive: Archive, *units: SourceUnit) -> None:
    """Archive units in a process that is killed between commit and ledger."""

    def crash(*_: Any, **__: Any) -> None:
        raise ConnectionError("kill -9")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(archive.writer, "_finish_units", crash)
        with pytest.raises(ConnectionError):
            archive.ingest(*units)


def test_file_rewritten_after_a_crash_is_accounted_for(archive: Archive) -> None:
    _crash_before_the_ledger(archive, _lines("a", _row("x"), _row("y")))
    archive.open()
    archive.ingest(_lines("a", _row("z"), _row("y")))
    assert [host for host, *_ in archive.rows()] == ["x", "y", "z"]
    assert archive.counters()[:4] == (3, 3, 0, 0)  # y is in its line again
    archive.open()
    assert archive.counters()[:4] == (3, 3, 0, 0)
    assert archive.is_healthy()


def test_file_rewritten_after_several_interrupted_batches_is_accounted_for(
    archive: Archive,
) -> None:
    archive.ingest(_lines("first", _row("new")))
    late = {"ts": "2025-12-31T00:00:00Z", "host": "late", "n": 1}
    _crash_before_the_ledger(archive, _lines("a", _row("x"), late))
    # The same process goes on with another batch, and ends while the file is read again.
    archive.ingest(_lines("b", _row("w")))
    _crash_before_the_ledger(archive, _lines("a", _row("x"), _row("y"), late))
    archive.open()
    archive.ingest(_lines("a", _row("z")))
    # Archived: new, w, x, y, the late row and z. The late row of the second reading: a duplicate
    # that nobody counts, as its reading was not finished.
    assert archive.counters()[:4] == (6, 6, 1, 0)
    assert archive.is_healthy()


def test_rows_of_a_file_deleted_after_a_crash_are_accounted_for(archive: Archive) -> None:
    _crash_before_the_ledger(archive, _lines("a", _row("x"), _row("y")))
    archive.open()
    assert archive.counters()[:2] == (2, 2)
    archive.ingest(_lines("b", _row("y"), _row("z")))
    assert archive.counters()[:4] == (4, 3, 0, 1)
    assert archive.is_healthy()


# Parquet


def _parquet(archive: Archive, name: str, table: pa.Table) -> SourceUnit:
    folder = archive.settings.file.parent / "landing"
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name)
    return files.make_unit("cpu", name, PARQUET, folder / name, 1)


def _times(*hours: int | None, unit: str = "us", zone: str | None = "UTC") -> pa.Array:
    moments = [None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in hours]
    return pa.array(moments, pa.timestamp(unit, tz="UTC")).cast(
        pa.timestamp(unit, tz=zone), safe=False
    )


@pytest.mark.parametrize(
    ("unit", "zone"), [("us", "UTC"), ("ns", None), ("ms", "Europe/Lisbon"), ("s", None)]
)
def test_parquet_rows_are_duplicates_of_equal_json_lines(
    archive: Archive, unit: str, zone: str | None
) -> None:
    hosts = pa.array(["a", None, "c"]).dictionary_encode()
    table = pa.table(
        {
            "x": [1.5, None, 2.5],
            "n": pa.array([1, 2, None], pa.int64()),
            "host": hosts,
            "ts": _times(1, 2, 3, unit=unit, zone=zone),
        }
    )
    archive.ingest(_parquet(archive, "a.parquet", table))
    values = [(1.5, "a", 1), (None, None, 2), (2.5, "c", None)]
    lines = [
        {"ts": f"2026-01-01T0{i}:00:00Z", "x": x, "host": h, "n": n}
        for i, (x, h, n) in enumerate(values, 1)
    ]
    archive.ingest(_lines("b", *lines))
    assert archive.counters() == (6, 3, 0, 3, 0, 0, 0)
    assert archive.is_healthy()


def test_invalid_parquet_rows_are_refused_alone(archive: Archive) -> None:
    table = pa.table(
        {
            "ts": _times(1, None, 2, 3).cast(pa.timestamp("us", tz="UTC")),
            "host": ["a", "b", "c", "d"],
            "n": pa.array([1, 2, 2**31, -(2**31)], pa.int64()),
        }
    )
    archive.ingest(_parquet(archive, "a.parquet", table))
    assert archive.counters() == (4, 2, 0, 0, 2, 0, 0)
    letters = sorted(archive.dead_letters(), key=lambda letter: letter.line)
    assert [(letter.line, letter.detail) for letter in letters] == [
        (2, "column ts: event time is missing"),
        (3, "column n: 2147483648 is out of range for type int"),
    ]
    assert json.loads(letters[1].raw) == {"ts": "2026-01-01T02:00:00Z", "host": "c", "n": 2**31}


def test_timestamp_before_1900_is_refused(archive: Archive) -> None:
    table = pa.table(
        {
            "ts": pa.array([datetime(1800, 1, 1, tzinfo=UTC)], pa.timestamp("ms", tz="UTC")),
            "host": ["a"],
        }
    )
    archive.ingest(_parquet(archive, "a.parquet", table))
    assert archive.counters() == (1, 0, 0, 0, 1, 0, 0)


def test_unreadable_parquet_file_is_one_dead_letter(archive: Archive) -> None:
    archive.ingest(
        _parquet(
            archive,
            "a.parquet",
            pa.table({"ts": ["2026-01-01T00:00:00Z"] * 3, "host": ["a", "b", "c"]}),
        )
    )
    path = archive.settings.file.parent / "landing" / "b.parquet"
    path.write_bytes(b"PAR1 no more than a name")
    archive.ingest(files.make_unit("cpu", "b", PARQUET, path, 1))
    assert archive.counters() == (2, 0, 0, 0, 2, 0, 0)
    details = [letter.detail for letter in archive.dead_letters()]
    assert "column ts: type string of the file cannot be converted to timestamp" in details
    assert any(detail.startswith("not a readable Parquet file") for detail in details)
    assert archive.is_healthy()


def test_parquet_dead_letter_can_be_retried(archive: Archive) -> None:
    times = pa.array([datetime(2026, 1, 3, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"ts": times, "host": ["a"], "n": pa.array([1], pa.int8())})
    archive.ingest(_parquet(archive, "a.parquet", table))
    assert archive.counters() == (1, 0, 0, 0, 0, 1, 0)
    assert archive.retry(NOW + timedelta(days=2)) == 1
    assert archive.rows() == [("a", 1, None, False)]


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
    """A table of records (partition, offset, value), as read from Kafka."""
    values = [None if value is None else json.dumps(value).encode() for _, _, value in records]
    numbers = pa.array([part for part, _, _ in records], pa.int32())
    return pa.table(
        {"partition": numbers, "offset": [offset for _, offset, _ in records], "value": values}
    )


def _consume(archive: Archive, *records: tuple[int, int, Any]) -> None:
    if "cpu" not in archive.writer.partitions:
        begin_topic(archive.writer, "cpu")
    table = _records(*records)
    ranges = unread_ranges(table, archive.writer.partitions["cpu"])
    archive.ingest(*make_units("cpu", TOPIC, "t", table, ranges))


def test_record_is_late_relative_to_earlier_records_of_its_partition(
    archive: Archive,
) -> None:
    _consume(
        archive,
        (0, 1, _row("b", 5)),
        (0, 0, _row("a", 2)),
        (0, 2, _row("c", 3)),
        (0, 3, _row("d", 4)),
    )
    assert archive.rows() == [
        ("a", 1, None, False),
        ("b", 1, None, False),
        ("c", 1, None, True),
        ("d", 1, None, False),
    ]
    _consume(archive, (0, 4, _row("e", 3)), (0, 5, _row("f", 4)))
    assert archive.rows()[4:] == [("e", 1, None, True), ("f", 1, None, False)]
    assert archive.is_healthy()


def test_watermark_is_that_of_the_slowest_partition(archive: Archive) -> None:
    _consume(archive, (0, 0, _row("a", 20)), (1, 0, _row("b", 3)))
    assert archive.writer.watermark("cpu") == to_micros(datetime(2026, 1, 1, 2, tzinfo=UTC))
    _consume(archive, (1, 1, _row("c", 4)))
    assert [row[3] for row in archive.rows()] == [False, False, False]
    archive.writer.advance_partitions(
        {("cpu", "1"): to_micros(datetime(2026, 1, 1, 10, tzinfo=UTC))}
    )
    assert archive.writer.watermark("cpu") == to_micros(datetime(2026, 1, 1, 10, tzinfo=UTC))
    _consume(archive, (1, 2, _row("d", 9)), (2, 0, _row("e", 9)), (2, 1, _row("f", 10)))
    assert archive.rows()[3:] == [("d", 1, None, True), ("e", 1, None, True), ("f", 1, None, False)]
    before = archive.writer.watermark("cpu")
    archive.open()
    assert archive.writer.watermark("cpu") == before


def test_redelivered_records_are_counted_once(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise ConnectionError("kill -9")

    batch = [(0, 7, _row("a")), (0, 9, "no row"), (1, 0, _row("b")), (1, 1, None)]
    with monkeypatch.context() as patched:
        patched.setattr(archive.writer.catalog, "finish_units", crash)
        with pytest.raises(ConnectionError):
            _consume(archive, *batch)
    archive.open()
    _consume(archive, *batch)
    assert archive.counters() == (3, 2, 0, 0, 1, 0, 0)
    _consume(archive, *batch, (0, 10, _row("c")))
    assert archive.counters() == (4, 3, 0, 0, 1, 0, 0)
    letters = archive.dead_letters()
    assert [(letter.source, letter.line) for letter in letters] == [("t/0/7-9", 9)]
    tombstones = "SELECT unit, tombstones FROM units WHERE tombstones > 0"
    assert archive.connection.execute(tombstones).fetchall() == [("t/1/0-1", 1)]
    assert archive.is_healthy()


# How far a stream is complete


def test_catalog_and_writer_compute_the_same_watermark(archive: Archive) -> None:
    def stored_watermark() -> int | None:
        return Catalog(archive.connection).watermarks({"cpu": duration_to_micros(SCHEMA.lateness)})[
            "cpu"
        ]

    def watermark_after(hour: int) -> int:
        return to_micros(datetime(2026, 1, 1, hour, tzinfo=UTC) - SCHEMA.lateness)

    def part(name: str, hour: int, number: int) -> SourceUnit:
        raw = [json.dumps(_row(name, hour)).encode()]
        return SourceUnit(
            "cpu",
            f"t/{name}/{number}",
            JSONL,
            lambda: iter(raw),
            [number],
            partition=name,
            next_offset=number + 1,
        )

    begin_topic(archive.writer, "cpu")
    assert stored_watermark() is None
    archive.ingest(part("0", 5, 0), part("1", 9, 0))
    assert stored_watermark() == archive.writer.watermark("cpu") == watermark_after(5)
    archive.ingest(part("0", 7, 1))
    assert stored_watermark() == archive.writer.watermark("cpu") == watermark_after(7)
    archive.writer.advance({"cpu": watermark_after(8)})
    assert stored_watermark() == archive.writer.watermark("cpu") == watermark_after(8)
    archive.writer.advance_partitions({("cpu", "0"): watermark_after(12)})
    assert stored_watermark() == archive.writer.watermark("cpu") == watermark_after(9)
