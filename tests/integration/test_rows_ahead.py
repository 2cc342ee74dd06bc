"""Rows ahead of the clock in a real archive: what the ledger records, crashes, engines, status."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from archiver.chunks.chunk import CutPolicy
from archiver.executors import ExecutorIngest
from archiver.formats import JSONL
from archiver.ingest import Catalog
from archiver.ingest.engines import EngineMode, EnginePolicy
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import to_micros
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.streams import Stream
from moirae.config.table_schemas import stream_schema
from moirae.live.event_time import current_event_time
from moirae.live.sources import files
from moirae.live.sources.idle import IdleTracker, SourceKey
from moirae.live.sources.idle_sources import IdleSources
from moirae.live.sources.topics.units import make_topic_records, make_units
from moirae.runtime import database
from sql.archive import DeadLetterGateway, UnitGateway
from tests.ingest_scenario import begin_topic, split_by_partition, unread_ranges
from tests.inline_jobs import InlineJobs
from tests.sampled import every
from tests.workspaces import workspace, write_workspace

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: int}
    time: ts
    id: [host, n]
    key: [host]
    lateness: 1m
    source: {http: true}
  other:
    columns: {ts: timestamp, host: string}
    time: ts
    source: {http: true}
"""
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FAST = timedelta(minutes=4, seconds=45)
HOSTS = [f"h{number}" for number in range(9)]
TOPIC = Stream.model_validate(
    {
        "columns": {"ts": "timestamp", "host": "string", "n": "int"},
        "time": "ts",
        "source": {"kafka": {"servers": "localhost:1", "topic": "t"}},
    }
)


class Archive:
    """An archive of two streams, which can be opened again as after a crash."""

    def __init__(
        self, settings: Settings, connection: Connection[Any], folder: Path, engine: EngineMode
    ) -> None:
        self.settings = settings
        self.connection = connection
        self.folder = folder
        self.engine = engine
        self.seconds = 0.0  # of the monotonic clock
        self.unread = False
        self.open()

    def open(self) -> None:
        """Open the archive as a new process does."""
        streams = self.settings.streams
        schemas = [stream_schema(name, declared) for name, declared in streams.items()]
        policy = CutPolicy(100_000, 86_400_000_000)
        self.writer = ArchiveWriter(
            Path(self.settings.archive), schemas, policy, self.connection, lambda: None
        )
        if self.engine == "spark":
            self.writer.engines.executors = ExecutorIngest(InlineJobs(), self.writer.engines.sizes)
            self.writer.engines.policy = EnginePolicy("spark")
        self.tracker = IdleTracker({name: declared.idle for name, declared in streams.items()})
        self.idle_sources = IdleSources(
            archive=self.writer,
            tracker=self.tracker,
            has_unread=lambda _: self.unread,
        )

    def ingest(self, name: str, rows: Sequence[tuple[str, datetime]], now: datetime) -> None:
        """Archive a unit of the stream cpu. `rows`: host and time."""
        ingested = self.writer.ingest([self.unit(name, rows)], to_micros(now))
        self.tracker.record_rows_not_ahead(
            map(SourceKey._make, ingested.sources_not_ahead), self.seconds
        )

    def unit(self, name: str, rows: Sequence[tuple[str, datetime]]) -> SourceUnit:
        """A file of the stream cpu."""
        lines = [
            json.dumps({"ts": ts.isoformat(), "host": host, "n": number})
            for number, (host, ts) in enumerate(rows)
        ]
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines))
        return files.make_unit("cpu", path.name, JSONL, path, path.stat().st_size)

    def late_hosts(self) -> list[str]:
        """The hosts of late rows, sorted."""
        rows = self.writer.tables["cpu"].read(["host", "_late"]).to_pylist()
        return sorted(row["host"] for row in rows if row["_late"])

    def watermark(self) -> datetime | None:
        """The watermark of the stream, as stored and as in memory."""
        mark = self.writer.watermark("cpu")
        stored = Catalog(self.connection).watermarks({"cpu": 60_000_000})["cpu"]
        assert stored == mark
        return None if mark is None else datetime.fromtimestamp(mark / 1e6, UTC)

    def clocks(self) -> list[datetime]:
        """The clocks of the units, in the order of their registration."""
        rows = self.connection.execute("SELECT clock FROM units ORDER BY id").fetchall()
        return [clock.astimezone(UTC) for (clock,) in rows]


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A workspace with a running database."""
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


Open = Callable[[EngineMode], Archive]


@pytest.fixture
def open_archive(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    write_workspace(root, f"{WORKSPACE}archive: {tmp_path / 'archive'}\n")
    settings = load_settings_from_environment(root / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with database.connect_database(settings, "tests") as connection:
        archives: list[Archive] = []

        def open_archive(engine: EngineMode) -> Archive:
            archives.append(Archive(settings, connection, tmp_path, engine))
            return archives[-1]

        monkeypatch.setattr(
            "moirae.live.sources.idle_sources.time.monotonic", lambda: archives[-1].seconds
        )
        yield open_archive


@pytest.fixture
def archive(open_archive: Open) -> Archive:
    return open_archive("local")


def _deliver(archive: Archive, delay: timedelta, *, fast: bool, until: int = 330) -> None:
    """Ten hosts send a row each every 15 seconds, of which one may be ahead of the clock."""
    for offset in range(0, until, 15):
        now = NOON + offset * SECOND
        archive.seconds = float(offset)
        rows = [(host, now - delay) for host in HOSTS]
        if fast:
            rows.append(("fast", now - delay + FAST))
        archive.ingest(f"{offset}", rows, now)
        archive.idle_sources.follow_rows_ahead(now)
        archive.seconds += 9
        archive.idle_sources.follow_rows_ahead(now + 9 * SECOND)


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("delay", every(2, [30, 0]))
def test_one_host_ahead_makes_no_row_of_others_late(
    open_archive: Open, engine: EngineMode, delay: int
) -> None:
    archive = open_archive(engine)
    _deliver(archive, delay * SECOND, fast=True)
    assert archive.late_hosts() == []
    last = NOON + timedelta(seconds=315 - delay)
    assert archive.watermark() == last - timedelta(minutes=1)
    archive.open()
    assert archive.watermark() == last - timedelta(minutes=1)


@pytest.mark.parametrize("engine", every(2, ["local", "spark"]))
def test_watermark_follows_the_clock_if_only_rows_ahead_come(
    open_archive: Open, engine: EngineMode
) -> None:
    archive = open_archive(engine)
    archive.ingest("0", [(host, NOON + FAST) for host in HOSTS], NOON)
    archive.idle_sources.follow_rows_ahead(NOON)
    assert archive.watermark() is None
    archive.seconds = 9.9
    archive.idle_sources.follow_rows_ahead(NOON + 9.9 * SECOND)
    assert archive.watermark() is None
    archive.seconds = 10.0
    archive.idle_sources.follow_rows_ahead(NOON + 10 * SECOND)
    assert archive.watermark() == NOON - 50 * SECOND
    archive.ingest("1", [(host, NOON + FAST + 10 * SECOND) for host in HOSTS], NOON + 10 * SECOND)
    archive.open()
    archive.seconds = 400.0
    archive.idle_sources.follow_rows_ahead(NOON + 400 * SECOND)
    assert archive.watermark() == NOON + FAST - 50 * SECOND
    assert archive.late_hosts() == []


def test_other_rows_late_after_the_watermark_followed_rows_ahead_are_counted(
    archive: Archive,
) -> None:
    archive.ingest("0", [("h0", NOON), ("fast", NOON + FAST)], NOON)
    archive.seconds = 120.0
    archive.idle_sources.follow_rows_ahead(NOON)
    archive.idle_sources.follow_rows_ahead(NOON + 120 * SECOND)
    archive.ingest("1", [("h1", NOON), ("h2", NOON - 90 * SECOND)], NOON + 120 * SECOND)
    assert archive.late_hosts() == ["h1", "h2"]
    (counts, *_) = UnitGateway(archive.connection).sum_by_stream()
    assert (counts.stream, counts.late, counts.late_by_ahead) == ("cpu", 2, 1)


class Killed(Exception):
    """Raised where the process is killed."""


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_replay_counts_rows_as_ahead_of_the_clock_of_the_first_read(
    open_archive: Open, engine: EngineMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between append and ledger; the unit is read again when its rows ahead are past."""

    def kill(*_: Any) -> None:
        raise Killed

    archive = open_archive(engine)
    rows = [("h0", NOON), ("fast", NOON + FAST)]
    monkeypatch.setattr(archive.writer, "_finish_units", kill)
    with pytest.raises(Killed):
        archive.ingest("0", rows, NOON)
    assert archive.clocks() == [NOON]
    archive.open()
    later = NOON + timedelta(minutes=10)
    archive.ingest("0", rows, later)
    archive.ingest("1", [("h0", NOON + 30 * SECOND)], later)
    assert archive.clocks() == [NOON, later]
    assert archive.late_hosts() == []
    assert archive.watermark() == NOON - 30 * SECOND


@pytest.mark.slow
def test_recorded_clock_never_goes_back(archive: Archive) -> None:
    step = timedelta(hours=2)
    for number, now in enumerate([NOON, NOON + step, NOON + SECOND, NOON - step]):
        archive.ingest(f"{number}", [("h0", NOON - step - number * SECOND)], now)
        archive.open()
    assert archive.clocks() == [NOON, NOON + step, NOON + step, NOON + step]


def test_rows_while_the_clock_of_the_server_is_two_hours_slow_are_on_time(
    archive: Archive,
) -> None:
    """They may be ahead of it by three hours."""
    schema = archive.writer.tables["cpu"].schema
    object.__setattr__(schema, "future", timedelta(hours=3))
    for number, step in enumerate([0, 0, -2, -2, -2, 0, 0]):
        now = NOON + number * 30 * SECOND
        archive.seconds = 30.0 * number
        archive.ingest(f"{number}", [(host, now) for host in HOSTS], now + timedelta(hours=step))
        archive.idle_sources.follow_rows_ahead(now + timedelta(hours=step))
    assert archive.late_hosts() == []
    assert archive.watermark() == NOON + timedelta(minutes=2)


def test_watermark_does_not_follow_rows_ahead_while_input_is_unread(archive: Archive) -> None:
    archive.ingest("0", [("fast", NOON + FAST)], NOON)
    archive.seconds = 400.0
    archive.unread = True
    archive.idle_sources.follow_rows_ahead(NOON + 400 * SECOND)
    assert archive.watermark() is None
    archive.unread = False
    archive.idle_sources.follow_rows_ahead(NOON + 400 * SECOND)
    assert archive.watermark() == NOON + FAST - 60 * SECOND


def test_event_time_of_changes_is_not_that_of_rows_ahead(archive: Archive) -> None:
    archive.ingest("0", [("h0", NOON - 5 * SECOND), ("fast", NOON + FAST)], NOON)
    assert current_event_time(archive.writer) == NOON
    archive.open()
    assert current_event_time(archive.writer) == NOON
    archive.ingest("1", [("h0", NOON + 6 * SECOND)], NOON + 7 * SECOND)
    assert current_event_time(archive.writer) == NOON + 7 * SECOND


def test_retried_rows_are_ahead_as_of_the_first_read_of_their_unit(archive: Archive) -> None:
    archive.ingest("0", [("h0", NOON), ("h1", NOON + timedelta(minutes=6))], NOON)
    later = NOON + timedelta(minutes=10)
    DeadLetterGateway(archive.connection).mark_for_retry([], stream=None, reason=None, limit=10)
    assert archive.writer.retry(to_micros(later)).appended_rows == 1
    assert archive.watermark() == NOON - 60 * SECOND
    archive.idle_sources.follow_rows_ahead(later)
    assert archive.watermark() == NOON + timedelta(minutes=5)


# Kafka partitions


def _records(*rows: tuple[int, int, datetime]) -> Any:
    """Records of a topic: partition, offset and time."""
    import pyarrow as pa

    values = [
        json.dumps({"ts": ts.isoformat(), "host": f"h{partition}", "n": offset}).encode()
        for partition, offset, ts in rows
    ]
    columns = [
        pa.array([row[0] for row in rows], pa.int32()),
        pa.array([row[1] for row in rows], pa.int64()),
        pa.array(values, pa.binary()),
    ]
    return pa.table(columns, names=["partition", "offset", "value"])


def _consume(archive: Archive, now: datetime, *rows: tuple[int, int, datetime]) -> None:
    writer = archive.writer
    if "cpu" not in writer.partitions:
        begin_topic(writer, "cpu")
    table = _records(*rows)
    ranges = unread_ranges(table, writer.partitions["cpu"])
    if archive.engine == "spark":
        records = make_topic_records("cpu", TOPIC, "t", split_by_partition(table), ranges)
        writer.ingest_records(records, to_micros(now))
        return
    writer.ingest(make_units("cpu", TOPIC, "t", table, ranges), to_micros(now))


@pytest.mark.parametrize("engine", every(2, ["local", "spark"]))
def test_records_ahead_are_not_compared_with_in_their_partition(
    open_archive: Open, engine: EngineMode
) -> None:
    archive = open_archive(engine)
    _consume(
        archive,
        NOON,
        (0, 0, NOON - 5 * SECOND),
        (0, 1, NOON + FAST),
        (0, 2, NOON),
        (1, 0, NOON + FAST),
        (0, 3, NOON - 61 * SECOND),
    )
    assert archive.late_hosts() == ["h0"]
    assert archive.watermark() == NOON - 60 * SECOND
    # The partition that has brought rows ahead only does not get behind the others.
    _consume(archive, NOON + SECOND, (1, 1, NOON - 70 * SECOND), (1, 2, NOON))
    assert archive.late_hosts() == ["h0", "h1"]
    archive.seconds = 400.0
    archive.idle_sources.follow_rows_ahead(NOON + 400 * SECOND)
    assert archive.watermark() == NOON + FAST - 60 * SECOND
    _consume(archive, NOON + 400 * SECOND, (0, 4, NOON + 200 * SECOND))
    (counts, *_) = UnitGateway(archive.connection).sum_by_stream()
    assert (counts.late, counts.late_by_ahead) == (3, 1)


@pytest.mark.parametrize("engine", every(2, ["local", "spark"]))
def test_longer_range_of_records_after_a_crash_has_the_recorded_clock(
    open_archive: Open, engine: EngineMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: Any) -> None:
        raise Killed

    archive = open_archive(engine)
    records = [(0, 0, NOON), (0, 1, NOON + FAST)]
    monkeypatch.setattr(archive.writer, "_finish_units", kill)
    with pytest.raises(Killed):
        _consume(archive, NOON, *records)
    archive.open()
    later = NOON + timedelta(minutes=10)
    _consume(archive, later, *records, (0, 2, NOON - 30 * SECOND))
    assert archive.clocks() == [NOON]
    assert archive.late_hosts() == []
    assert archive.watermark() == NOON - 60 * SECOND
    (counts, *_) = UnitGateway(archive.connection).sum_by_stream()
    assert (counts.archived, counts.duplicates, counts.open_units) == (3, 0, 0)
