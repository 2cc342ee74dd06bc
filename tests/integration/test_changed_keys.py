"""What a changed key of a stream or of `chunks` does, as docs/howto/operate.md says."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree, rmtree

import pytest

import sql
from archiver.chunks import ChunkRecord, CutPolicy, LifecyclePolicy, StateChange, plan_steps
from archiver.chunks.chunk import Chunk
from archiver.delta import StreamSchema, StreamTable
from archiver.delta.data_files.settled_places import SettledPlaces
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter, SourceUnit, hold_watermarks
from archiver.times import to_micros
from moirae.config import Settings, Stream, load_settings_from_environment
from moirae.config.archive import Chunks
from moirae.live.sources import IdleTracker, SourceKey
from moirae.runtime import connect_database
from tests.workspaces import workspace

DOCUMENT = Path(__file__).parents[2] / "docs" / "howto" / "operate.md"
START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = to_micros(START + timedelta(days=1))
SCHEMA = StreamSchema(
    "a",
    {"ts": "timestamp", "n": "int"},
    "ts",
    ("n",),
    (),
    timedelta(minutes=1),
    timedelta(minutes=5),
)
HOUR = 3_600_000_000

pytestmark = pytest.mark.services


class Archive:
    """An archive of one stream that is opened anew for each declaration."""

    def __init__(self, root: Path, connection: sql.Connection) -> None:
        self.root = root
        self.connection = connection
        self.units = 0

    def open(
        self, schema: StreamSchema = SCHEMA, policy: CutPolicy = CutPolicy(1000, 1000 * HOUR)
    ) -> ArchiveWriter:
        archive = ArchiveWriter(self.root, [schema], policy, self.connection, lambda: None)
        hold_watermarks(archive, self.connection)
        return archive

    def ingest(self, archive: ArchiveWriter, *minutes: float, now: int = NOW) -> None:
        """A unit with rows of some minutes after the start."""
        self.units += 1
        lines = []
        for position, minute in enumerate(minutes):
            ts = (START + timedelta(minutes=minute)).isoformat()
            lines.append(f'{{"ts": "{ts}", "n": {self.units * 100 + position}}}'.encode())
        archive.ingest([SourceUnit("a", f"{self.units}", JSONL, lambda: iter(lines))], now)

    def late_rows(self) -> int:
        row = self.connection.execute("SELECT sum(late)::int FROM units").fetchone()
        assert row is not None
        return int(row[0])

    def dead_letters(self) -> int:
        row = self.connection.execute("SELECT count(*) FROM dead_letters").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    with workspace("home: .moirae\nstreams: {}\n", "groups: []\n") as root:
        yield load_settings_from_environment(root / "moirae.yaml")


@pytest.fixture
def archive(settings: Settings, tmp_path: Path) -> Iterator[Archive]:
    with connect_database(settings, "tests") as connection:
        connection.execute("TRUNCATE units, streams, dead_letters, partitions, chunks CASCADE")
        yield Archive(tmp_path, connection)


def check_lateness(archive: Archive) -> None:
    """A smaller one holds at once; a greater one does not move the watermark back."""
    writer = archive.open()
    archive.ingest(writer, 60)
    archive.ingest(writer, 59.5, 58.5)
    assert archive.late_rows() == 1
    archive.ingest(archive.open(replace(SCHEMA, lateness=timedelta(0))), 59.5)
    assert archive.late_rows() == 2
    writer = archive.open(replace(SCHEMA, lateness=timedelta(minutes=10)))
    assert writer.watermark("a") == to_micros(START + timedelta(minutes=60))
    archive.ingest(writer, 59)
    assert archive.late_rows() == 3
    archive.ingest(writer, 75)
    archive.ingest(writer, 66)
    assert archive.late_rows() == 3


def check_future(archive: Archive) -> None:
    archive.ingest(archive.open(), 6, now=to_micros(START))
    assert archive.dead_letters() == 1
    archive.ingest(
        archive.open(replace(SCHEMA, future=timedelta(minutes=7))), 6, now=to_micros(START)
    )
    assert archive.dead_letters() == 1


def check_idle(_archive: Archive) -> None:
    watermarks: dict[SourceKey, int | None] = {SourceKey("a"): None, SourceKey("b"): 7}
    for idle, advances in ((10, {}), (5, {SourceKey("a"): 7})):
        tracker = IdleTracker(dict.fromkeys("ab", timedelta(seconds=idle)))
        tracker.compute_advances(watermarks, 0.0, lambda _: False)
        assert tracker.compute_advances(watermarks, 6.0, lambda _: False) == advances


def check_key(archive: Archive) -> None:
    """Files that are clustered stay as they are; the next ones are ordered by the new key."""
    writer = archive.open()
    archive.ingest(writer, 3, 2, 1)
    settled = SettledPlaces(last_append=1_000)  # all source units were read to their end
    first = StreamTable(archive.root, replace(SCHEMA, key=("n",)))
    first.cluster(0, settled_places=settled)
    paths = [file.path for file in first.data_files()]
    second = StreamTable(archive.root, SCHEMA)
    second.cluster(0, settled_places=settled)
    assert [file.path for file in second.data_files()] == paths
    assert second.schema.key == ()


def check_rows(archive: Archive) -> None:
    """The newest chunk closes by the new number; chunks that are closed stay."""
    writer = archive.open()
    archive.ingest(writer, 1, 2, 3, 4)
    assert len(writer.chunks) == 1
    writer = archive.open(policy=CutPolicy(4, 1000 * HOUR))
    archive.ingest(writer, 5)
    archive.ingest(writer, 6)
    chunks = list(writer.chunks)
    assert len(chunks) == 2
    assert list(archive.open(policy=CutPolicy(1, HOUR)).chunks) == chunks


def check_age(archive: Archive) -> None:
    writer = archive.open()
    archive.ingest(writer, *range(1, 41))
    assert len(writer.chunks) == 1
    writer = archive.open(policy=CutPolicy(1000, HOUR // 10))
    archive.ingest(writer, 41)
    archive.ingest(writer, 42)
    assert len(writer.chunks) == 2


def _states(recent: int, keep: int | None, states: str) -> list[tuple[int, str]]:
    """The next changes of chunks of an hour each, oldest first, after the last one has ended."""
    records = []
    for number, letter in enumerate(states):
        state = {"p": "present", "r": "recent", "o": "old", "e": "expired"}[letter]
        start = None if number == 0 else number * HOUR
        records.append(ChunkRecord(Chunk(number, start, (number + 1) * HOUR, state)))
    records.append(ChunkRecord(Chunk(len(states), len(states) * HOUR, None, "present")))
    now = (len(states) + 1) * HOUR
    plan = plan_steps(
        records,
        LifecyclePolicy(recent, keep, 0.0),
        watermark=now,
        newest=now,
        requirements=(),
        chunks_in_use=(),
    )
    return [(step.chunk, step.state) for step in plan if isinstance(step, StateChange)]


def check_recent(_archive: Archive) -> None:
    assert _states(3, None, "rrr") == []
    assert (0, "old") in _states(2, None, "rrr")
    assert _states(3, None, "orr") == [], "an old chunk stays old"


def check_keep(_archive: Archive) -> None:
    assert _states(3, None, "orr") == []
    assert (0, "expired") in _states(3, 2 * HOUR, "orr")
    assert _states(3, None, "err") == [], "an expired chunk stays expired"


def check_punctuation(archive: Archive) -> None:
    """Records close time from then on; what was closed stays closed, and earlier ones may be retried."""

    def close(writer: ArchiveWriter, minute: float) -> None:
        archive.units += 1
        line = f'{{"closed": "{(START + timedelta(minutes=minute)).isoformat()}"}}'.encode()
        writer.ingest([SourceUnit("a", f"{archive.units}", JSONL, lambda: iter([line]))], NOW)

    writer = archive.open()
    archive.ingest(writer, 10)
    close(writer, 30)
    assert archive.dead_letters() == 1
    declared = replace(SCHEMA, punctuation="closed")
    writer = archive.open(declared)
    close(writer, 20)
    assert archive.open(declared).watermark("a") == to_micros(START + timedelta(minutes=20))
    writer = archive.open(declared)
    archive.ingest(writer, 19)
    assert (archive.dead_letters(), archive.late_rows()) == (1, 1)
    archive.connection.execute("UPDATE dead_letters SET retry = true")
    writer.retry(NOW)
    assert archive.dead_letters() == 0
    writer = archive.open()
    assert writer.watermark("a") == to_micros(START + timedelta(minutes=30))
    close(writer, 40)
    assert archive.dead_letters() == 1


CHECKS: dict[str, Callable[[Archive], None] | None] = {
    "lateness": check_lateness,
    "future": check_future,
    "idle": check_idle,
    "key": check_key,
    "punctuation": check_punctuation,
    "chunks.rows": check_rows,
    "chunks.age": check_age,
    "chunks.recent": check_recent,
    "chunks.keep": check_keep,
    # Tests of their own: test_changing_streams.py, test_column_changes.py, test_growing_files.py,
    # test_recent_changes.py, test_redaction.py, test_retention.py, test_summaries.py.
    "source": None,
    "was": None,
    "columns": None,
    "id": None,
    "identity": None,
    "time": None,
    "redact": None,
    "keep": None,
    "summaries": None,
    "changes": None,
}


def test_each_key_is_documented_and_tested() -> None:
    section = DOCUMENT.read_text().split("### Changed keys\n")[1].split("\n## ")[0]
    documented = set(re.findall(r"^\| `([a-z.]+)`", section, re.MULTILINE))
    stream_keys = {field.alias or name for name, field in Stream.model_fields.items()}
    chunk_keys = {f"chunks.{name}" for name in Chunks.model_fields}
    assert set(CHECKS) == documented == stream_keys | chunk_keys


@pytest.mark.parametrize("key", [key for key, check in CHECKS.items() if check is not None])
def test_changed_key_takes_effect_as_documented(archive: Archive, key: str) -> None:
    check = CHECKS[key]
    assert check is not None
    check(archive)


def test_archive_that_was_moved_goes_on(archive: Archive, tmp_path: Path) -> None:
    archive.ingest(archive.open(), 1)
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    copytree(tmp_path, moved)
    for path in tmp_path.iterdir():
        rmtree(path)
    archive.root = moved
    writer = archive.open()
    archive.ingest(writer, 2)
    assert sum(file.rows for file in writer.tables["a"].data_files()) == 2
