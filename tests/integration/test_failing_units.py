"""A source unit that breaks its reader stops only itself; the rest of its batch is archived."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

import sql
from archiver.chunks import CutPolicy
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter, SourceUnit, read_lines
from moirae.config import EXTERNAL_ALERTS
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.live.flow_counts import FlowCounts
from moirae.live.ingest import Ingest
from moirae.live.set_aside import SetAside
from moirae.live.sources import IdleTracker, InputArchiving, LandedBatches, LandingFolders
from moirae.live.unit_failures import UnitFailures
from moirae.runtime import connect_database
from moirae.runtime.storage import Landings, open_storage
from sql.archive import DeadLetterGateway, SetAsideGateway, UnitGateway
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams:
  a: {columns: {ts: timestamp, n: int}, time: ts, lateness: 0s, source: {http: true}}
  b: {columns: {ts: timestamp, n: int}, time: ts, lateness: 0s, source: {http: true}}
"""


class FailingIngest:
    """`Ingest` over a real archive, without detection; the clock is the test's."""

    def __init__(self, settings: Settings, connection: sql.Connection) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.connection = connection
        self.archive = ArchiveWriter(
            open_storage(settings),
            [stream_schema(name, declared) for name, declared in settings.streams.items()],
            CutPolicy(1000, 1 << 40),
            connection,
            lambda: None,
        )
        self.set_aside = SetAside(SetAsideGateway(connection))
        units = UnitGateway(connection)
        ignored: Any = SimpleNamespace(
            record_commit=lambda _: None,
            detect_and_settle=lambda _: None,
            detect_early=lambda _: None,
            detect_alerts=lambda: None,
            run=lambda: None,
            flows=FlowCounts(),
        )
        failures = UnitFailures(self.set_aside, units, now=lambda: self.now)
        self.ingest = Ingest(
            archive=self.archive,
            detector=ignored,
            follow_up=ignored,
            role=ignored,
            unit_failures=failures,
            idle_tracker=IdleTracker({}),
            record_batch=lambda _: None,
        )
        folders = LandingFolders(Landings.of(settings), settings.streams)
        archiving = InputArchiving(
            archive=self.archive,
            ingest=self.ingest,
            failures=failures,
            units=units,
            lock=threading.Lock(),
        )
        self.landed_batches = LandedBatches(folders, archiving, drain=True)

    def try_units(self, *units: SourceUnit) -> list[str]:
        """Ingest units; returns the names of those that were postponed."""
        return [unit.name for unit in self.ingest.ingest_units(units)]

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def counts(self) -> dict[str, tuple[int, int]]:
        """By stream: records read, and late ones."""
        sums = UnitGateway(self.connection).sum_by_stream()
        return {
            counts.stream: (counts.read, counts.late)
            for counts in sums
            if counts.stream != EXTERNAL_ALERTS
        }


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.fixture
def failing(root: Path) -> Iterator[FailingIngest]:
    settings = load_settings_from_environment(root / "moirae.yaml")
    with connect_database(settings, "tests") as connection:
        connection.execute("TRUNCATE set_aside, units, streams CASCADE")
        yield FailingIngest(settings, connection)


def _row(minute: int) -> bytes:
    return b'{"ts": "2026-01-01T00:%02d:00Z", "n": %d}' % (minute, minute)


def _unit(stream: str, name: str, *minutes: int) -> SourceUnit:
    return SourceUnit(stream, name, JSONL, lambda: iter(list(map(_row, minutes))))


class _Breaking:
    """A unit of one row that breaks its reader until `is_broken` is false."""

    def __init__(self, stream: str, name: str, minute: int) -> None:
        self.is_broken = True
        self._minute = minute
        self.unit = SourceUnit(stream, name, JSONL, self._read)

    def _read(self) -> Iterator[bytes]:
        if self.is_broken:
            raise RuntimeError("the decoder breaks")
        yield _row(self._minute)


def test_other_units_of_the_batch_are_archived(failing: FailingIngest) -> None:
    breaking = _Breaking("a", "2", 2)
    units = [_unit("a", "1", 1), breaking.unit, _unit("a", "3", 3), _unit("b", "1", 1)]
    # Later units of the stream wait, as they would make the rows of this one late.
    assert failing.try_units(*units) == ["2", "3"]
    assert failing.counts() == {"a": (1, 0), "b": (1, 0)}
    breaking.is_broken = False
    failing.advance(30)
    assert failing.try_units(*units) == []
    assert failing.counts() == {"a": (3, 0), "b": (1, 0)}
    assert failing.set_aside.list_failed() == []


def test_unit_is_set_aside_after_a_minute_and_later_ones_are_read(failing: FailingIngest) -> None:
    breaking = _Breaking("a", "1", 1)
    units = [breaking.unit, _unit("a", "2", 2)]
    for _ in range(2):
        assert failing.try_units(*units) == ["1", "2"]
        failing.advance(30)
    assert failing.try_units(*units) == ["1"]
    (row,) = failing.set_aside.list_failed()
    assert row.set_aside_at is not None
    assert row.reason == "RuntimeError: the decoder breaks"
    assert failing.counts() == {"a": (1, 0), "b": (0, 0)}
    failing.advance(3600)
    assert failing.try_units(breaking.unit) == ["1"]


def test_files_that_cannot_be_opened_hold_their_stream_for_a_minute_in_all(
    failing: FailingIngest, tmp_path: Path
) -> None:
    units = []
    for name in ("1", "2", "3"):
        path = tmp_path / name
        path.symlink_to("nowhere")
        units.append(SourceUnit("a", name, JSONL, partial(read_lines, path), path=path))
    for _ in range(2):
        assert failing.try_units(*units, _unit("a", "4", 4)) == ["1", "2", "3", "4"]
        failing.advance(30)
    assert failing.try_units(*units, _unit("a", "4", 4)) == ["1", "2", "3"]
    assert failing.counts()["a"] == (1, 0)


def test_unit_that_is_read_later_says_how_many_rows_are_late(failing: FailingIngest) -> None:
    breaking = _Breaking("a", "1", 11)
    for _ in range(3):
        failing.try_units(breaking.unit, _unit("a", "2", 12))
        failing.advance(30)
    breaking.is_broken = False
    SetAsideGateway(failing.connection).request_retry(name="1")
    failing.set_aside._load()  # as within a second
    with structlog.testing.capture_logs() as logs:
        assert failing.try_units(breaking.unit) == []
    (event,) = [event for event in logs if event["action"] == "read_again"]
    assert (event["records"], event["late_rows"]) == (1, 1)
    assert failing.counts()["a"] == (2, 1)


def test_landed_batch_that_breaks_stays_and_others_are_removed(
    failing: FailingIngest, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = root / ".moirae"
    folders = {stream: Landings(home).open(stream) for stream in ("a", "b")}
    folders["a"].write_batch("push-1", ".jsonl", _row(1))
    folders["a"].write_batch("push-2", ".jsonl", _row(2))
    folders["b"].write_batch("push-1", ".jsonl", _row(1))
    archive = failing.archive.ingest

    def break_first(units: Any, now: int) -> Any:
        if any((unit.stream, unit.name) == ("a", "push-1") for unit in units):
            raise RuntimeError("the decoder breaks")
        return archive(units, now)

    monkeypatch.setattr(failing.archive, "ingest", break_first)
    failing.landed_batches.start()
    folders["b"].write_batch("push-2", ".jsonl", _row(2))  # after the start of the drain
    for _ in range(3):
        assert failing.landed_batches.has_unread("a")
        failing.landed_batches.update()
        failing.advance(30)
    failing.landed_batches.update()
    assert not failing.landed_batches.has_unread("a")
    names = {
        stream: [b.name for b in folder.pending_batches()] for stream, folder in folders.items()
    }
    assert names == {"a": ["push-1"], "b": ["push-2"]}
    monkeypatch.undo()
    SetAsideGateway(failing.connection).request_retry(stream="a")
    failing.set_aside._load()
    failing.landed_batches.update()
    assert folders["a"].pending_batches() == []


def test_dead_letters_that_break_their_reader_stay_dead_letters(
    failing: FailingIngest, monkeypatch: Any
) -> None:
    lines = [b"{", _row(30)]
    failing.try_units(SourceUnit("a", "1", JSONL, lambda: iter(lines)))
    letters = DeadLetterGateway(failing.connection)
    (marked,) = letters.mark_for_retry([], stream="a", reason=None, limit=10)

    def fail(*_: Any) -> None:
        raise RuntimeError("the decoder breaks")

    monkeypatch.setattr(failing.archive, "retry", fail)
    with structlog.testing.capture_logs() as logs:
        failing.ingest.retry_dead_letters()
    assert [event["action"] for event in logs] == ["retry_failed"]
    assert letters.count_marked() == 0
    assert letters.count_unmarked([marked]) == 1


def test_error_of_the_process_is_raised(failing: FailingIngest, monkeypatch: Any) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(failing.archive, "ingest", fail)
    with pytest.raises(OSError, match="No space left"):
        failing.ingest.ingest_units([_unit("a", "1", 1)])
    assert failing.set_aside.list_failed() == []
