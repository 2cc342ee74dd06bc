"""Records that are delivered again after the columns of their stream were changed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from archiver.delta import ColumnRewrite
from archiver.delta.schema import StreamSchema
from archiver.executors import ExecutorIngest
from archiver.formats import CSV, JSONL, PARQUET
from archiver.ingest.engines import EngineMode, EnginePolicy
from archiver.ingest.source_units import SourceUnit
from moirae.config.settings import load_settings_from_environment
from moirae.live.sources import files
from moirae.live.sources.topics.units import make_topic_records, make_units
from moirae.runtime import database
from tests.ingest_scenario import begin_topic, split_by_partition, unread_ranges
from tests.inline_jobs import InlineJobs
from tests.integration.test_units import NOW, SCHEMA, TOPIC, WORKSPACE, Archive
from tests.sampled import every
from tests.workspaces import workspace, write_workspace

# `n` is widened, `x` was undeclared, `host` has another name.
CHANGED = replace(
    SCHEMA,
    columns={"ts": "timestamp", "machine": "string", "n": "double", "x": "double"},
    id=("machine",),
    fields={"machine": ("machine", "host")},
    was={"machine": "host"},
)
COUNTERS = ("read", "archived", "late", "duplicates", "malformed", "quarantined", "conflicts")
ROWS = [
    {"ts": "2026-01-01T01:00:00Z", "host": "a", "n": 1, "x": 1.5},
    {"ts": "2026-01-01T02:00:00Z", "host": "b", "n": 2, "x": None},
    {"ts": "2026-01-01T03:00:00Z", "host": None, "n": -3, "x": 2},
]


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A workspace with a running database."""
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.fixture(params=["local", "spark"])
def mode(request: pytest.FixtureRequest) -> EngineMode:
    mode: EngineMode = request.param
    return mode


@pytest.fixture
def archive(root: Path, tmp_path: Path) -> Iterator[Archive]:
    write_workspace(root, f"{WORKSPACE}archive: {tmp_path / 'archive'}\n")
    settings = load_settings_from_environment(root / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with database.connect_database(settings, "tests") as connection:
        yield Archive(settings, connection)


def declare(archive: Archive, schema: StreamSchema, mode: EngineMode) -> None:
    """Open the archive under a declaration, as a new process does."""
    stream: dict[str, Any] = {
        "columns": {
            name: {"type": kind, "was": schema.was[name]} if name in schema.was else kind
            for name, kind in schema.columns.items()
        },
        "time": "ts",
        "id": schema.id,
        "identity": schema.identity,
        "lateness": "1h",
        "source": {"files": "landing/*.jsonl"},
    }
    document = {"home": ".moirae", "archive": archive.settings.archive, "streams": {"cpu": stream}}
    archive.settings.file.write_text(json.dumps(document))
    archive.settings = load_settings_from_environment(archive.settings.file)
    archive.open(schema)
    engines = archive.writer.engines
    engines.policy = EnginePolicy(mode)
    engines.executors = ExecutorIngest(InlineJobs(), engines.sizes)
    table = archive.writer.tables["cpu"]
    if table.is_rewriting:
        ColumnRewrite(table).run(lambda progress: None)


def without_id(schema: StreamSchema) -> StreamSchema:
    return replace(schema, id=None)


def write_lines(folder: Path, name: str, *rows: Any) -> SourceUnit:
    """A file of lines of JSON."""
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path = folder / name
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return files.make_unit("cpu", name, JSONL, path, path.stat().st_size)


def write_csv(folder: Path, name: str, *lines: str) -> SourceUnit:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return files.make_unit("cpu", name, CSV, path, path.stat().st_size)


def write_table(folder: Path, name: str) -> SourceUnit:
    """A Parquet file with a row that no other file has."""
    times = pa.array([datetime(2026, 1, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    columns = {"ts": times, "host": ["e"], "n": pa.array([5], pa.int16()), "x": [5.5]}
    pq.write_table(pa.table(columns), folder / name)
    return files.make_unit("cpu", name, PARQUET, folder / name, 1)


def counters(archive: Archive) -> dict[str, int]:
    """The counters that are not zero."""
    values = zip(COUNTERS, archive.counters(), strict=True)
    return {name: count for name, count in values if count}


def deliver(archive: Archive, folder: Path, prefix: str) -> None:
    """Files of all formats, under names of their own."""
    archive.ingest(
        write_lines(folder, f"{prefix}.jsonl", *ROWS),
        write_csv(folder, f"{prefix}.csv", "ts,x,host,n", "2026-01-01T04:00:00Z,0.5,d,4"),
        write_table(folder, f"{prefix}.parquet"),
    )


@pytest.mark.parametrize(
    "change", every(2, [lambda schema: schema, without_id]), ids=["id", "no id"]
)
def test_files_of_all_formats_are_duplicates(
    archive: Archive, tmp_path: Path, mode: EngineMode, change: Any
) -> None:
    declare(archive, change(SCHEMA), mode)
    deliver(archive, tmp_path, "first")
    assert counters(archive) == {"read": 5, "archived": 5}
    declare(archive, change(CHANGED), mode)
    deliver(archive, tmp_path, "second")
    assert counters(archive) == {"read": 10, "archived": 5, "duplicates": 5}
    # A value that the first declaration would have refused.
    new_row = {"ts": "2026-01-01T05:00:00Z", "host": "f", "n": 1.5, "x": 1.5}
    archive.ingest(write_lines(tmp_path, "third.jsonl", new_row))
    declare(
        archive, change(replace(CHANGED, columns={"ts": "timestamp", "machine": "string"})), mode
    )
    deliver(archive, tmp_path, "fourth")
    assert counters(archive) == {"read": 16, "archived": 6, "duplicates": 10}
    assert archive.is_healthy()


def test_other_content_is_a_conflict(archive: Archive, tmp_path: Path, mode: EngineMode) -> None:
    declare(archive, SCHEMA, mode)
    archive.ingest(write_lines(tmp_path, "first.jsonl", *ROWS))
    declare(archive, CHANGED, mode)
    changed = [{**ROWS[0], "n": 7}, {**ROWS[1], "x": 0.5}, ROWS[2]]
    archive.ingest(write_lines(tmp_path, "second.jsonl", *changed))
    assert counters(archive) == {"read": 6, "archived": 3, "duplicates": 1, "conflicts": 2}
    assert archive.is_healthy()


def test_records_of_a_topic_are_duplicates(archive: Archive, mode: EngineMode) -> None:
    for schema, first_offset in ((SCHEMA, 0), (CHANGED, len(ROWS))):
        declare(archive, schema, mode)
        records = pa.table(
            {
                "partition": pa.array([0] * len(ROWS), pa.int32()),
                "offset": pa.array(range(first_offset, first_offset + len(ROWS)), pa.int64()),
                "value": pa.array([json.dumps(row).encode() for row in ROWS], pa.binary()),
            }
        )
        if "cpu" not in archive.writer.partitions:
            begin_topic(archive.writer, "cpu")
        ranges = unread_ranges(records, archive.writer.partitions["cpu"])
        if mode == "local":
            archive.ingest(*make_units("cpu", TOPIC, "t", records, ranges))
        else:
            frame = split_by_partition(records)
            topic_records = make_topic_records("cpu", TOPIC, "t", frame, ranges)
            archive.writer.ingest_records(topic_records, int(NOW.timestamp() * 1e6))
    assert counters(archive) == {"read": 6, "archived": 3, "duplicates": 3}
    assert archive.is_healthy()


def test_retried_dead_letters_are_compared_with_earlier_rows(
    archive: Archive, tmp_path: Path, mode: EngineMode
) -> None:
    future = {"ts": "2026-01-03T00:00:00Z", "host": "z", "n": 1, "x": 0.5}
    declare(archive, SCHEMA, mode)
    archive.ingest(write_lines(tmp_path, "a.jsonl", ROWS[0], future, {**future, "host": "y"}))
    later = NOW + timedelta(days=2)
    archive.ingest(write_lines(tmp_path, "b.jsonl", future), now=later)
    assert counters(archive) == {"read": 4, "archived": 2, "quarantined": 2}
    declare(archive, CHANGED, mode)
    assert archive.retry(later) == 1
    assert counters(archive) == {"read": 4, "archived": 3, "duplicates": 1}
    assert archive.is_healthy()


def test_rows_of_an_interrupted_batch_are_counted_once(
    archive: Archive, tmp_path: Path, mode: EngineMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise ConnectionError("kill -9")

    # The declaration after the crash refuses the second line: `x` is no number there.
    unit = write_lines(tmp_path, "a.jsonl", ROWS[0], {**ROWS[1], "x": "none"}, b"{broken")
    declare(archive, SCHEMA, mode)
    with monkeypatch.context() as patched:
        patched.setattr(archive.writer.catalog, "finish_units", crash)
        with pytest.raises(ConnectionError):
            archive.ingest(unit)
    declare(archive, CHANGED, mode)
    archive.ingest(unit)
    assert counters(archive) == {"read": 3, "archived": 2, "malformed": 1}
    again = write_lines(tmp_path, "b.jsonl", ROWS[0], {**ROWS[1], "x": "none"})
    archive.ingest(again)
    assert counters(archive) == {"read": 5, "archived": 2, "duplicates": 2, "malformed": 1}
    assert archive.is_healthy()


def test_a_rewritten_file_brings_the_records_that_its_places_did_not_have(
    archive: Archive, tmp_path: Path, mode: EngineMode
) -> None:
    by_place = replace(SCHEMA, id=None, identity="place")
    declare(archive, by_place, mode)
    first = write_lines(tmp_path, "log.jsonl", ROWS[0], ROWS[0], ROWS[1])
    archive.ingest(first)
    assert counters(archive) == {"read": 3, "archived": 3}
    second = write_lines(tmp_path, "log.jsonl", ROWS[0], ROWS[1], ROWS[1], ROWS[2])
    archive.ingest(replace(second, name="log.jsonl again", place=first.name))
    # The second record is another one than before, the fourth is new.
    assert counters(archive) == {"read": 7, "archived": 5, "duplicates": 2}
