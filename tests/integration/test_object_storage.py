"""An archive in object storage: rows are archived, chunks maintained, recalls answered; a killed
writer leaves no row.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from archiver.chunks.maintenance import ChunkMaintenance
from archiver.delta.data_files import with_chunk_column
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.read.reader import Reader
from archiver.storage.base import as_storage
from moirae.config import load_settings_from_environment
from moirae.config.streams import Relation
from moirae.errors import MoiraeError
from moirae.inspect.doctor import run_checks
from moirae.live.sources import ObjectRelationReader, SourceKey
from moirae.runtime import connect_database, storage
from tests.integration.history import SCHEMA, history, run_until
from tests.integration.test_late_rows import ingest_rows, open_writer, run_maintenance
from tests.source_readers import archive_present_files, make_source_readers, update_until
from tests.store import put_object
from tests.workspaces import workspace

CHUNKS, ROWS = 5, 100
SOURCE = """
home: .moirae
streams:
  cpu:
    columns: {{ts: timestamp, n: int}}
    time: ts
    id: [n]
    source: {{files: "{bucket}/in/*.jsonl", ordered: true}}
"""


def test_chunks_in_object_storage_are_maintained_and_recalled(bucket: str) -> None:
    with history(CHUNKS, ROWS, bucket) as past:
        root = storage.open_storage(past.settings)
        writer, roller = open_writer(past), ChunkMaintenance(root, [SCHEMA], 0.4)
        try:
            run_maintenance(past, writer, roller, 10_000)
            assert [chunk.state for chunk in writer.chunks[:4]] == ["old", "old", "old", "recent"]
            ingest_rows(writer, "late", [(5, "h0", 1000)])
        finally:
            roller.stop()
        past.rows.append((5, "h0", 1000))
        assert all(writer.tables["past"].count_unclustered(chunk) == 0 for chunk in range(1, 4))
        with past.manager() as manager:
            task = past.add_task(1)
            run_until(manager, lambda: past.task(task)["state"] == "done")
        (*_, last) = past.revisions(task)
        assert last["answer"] == [past.expected_answer()], last
        reader = Reader(root, [SCHEMA], 1 << 20)
        reader.refresh_present({chunk.id for chunk in writer.chunks})
        assert sum(map(len, reader.snapshot("past").rows)) == CHUNKS * ROWS + 1
        assert [
            finding for finding in run_checks(past.settings, past.connection) if finding.problems
        ] == []
        assert not Path(past.settings.home, "archive").exists()


# Waits to be killed when its file is uploaded, but not yet committed.
_WRITER = """
import sys
from pathlib import Path
from unittest.mock import patch
from archiver.delta.data_files import with_chunk_column
from archiver.delta.log import DeltaLog
from archiver.delta.table import StreamTable
from moirae.config.settings import load_settings_from_environment
from moirae.runtime import storage
from tests.integration.history import SCHEMA

def wait(*values, **options):
    print("uploaded", flush=True)
    sys.stdin.read()

settings = load_settings_from_environment(Path(sys.argv[1]))
table = StreamTable(storage.open_storage(settings), SCHEMA)
with patch.object(DeltaLog, "commit", wait):
    rows = table.read([name for name in SCHEMA.arrow_schema().names if name != "chunk"])
    table.append(with_chunk_column(rows, 0), 1)
"""


@pytest.mark.slow
def test_writer_killed_before_its_commit_leaves_no_row(bucket: str) -> None:
    with history(1, ROWS, bucket) as past:
        table = StreamTable(storage.open_storage(past.settings), SCHEMA)
        committed_paths = {file.path for file in table.data_files()}
        command = [sys.executable, "-c", _WRITER, str(past.settings.file)]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None and writer.stdout.readline() == "uploaded\n"
        writer.kill()
        writer.communicate()
        assert set(as_storage(table.storage).list_files()) > committed_paths
        other = StreamTable(storage.open_storage(past.settings), SCHEMA)
        assert (
            other.read(["v"]).num_rows == ROWS
            and {file.path for file in other.data_files()} == committed_paths
        )
        assert [
            finding for finding in run_checks(past.settings, past.connection) if finding.problems
        ] == []
        sweeper = Vacuum(1.0)
        for now in (0.0, other.storage.min_file_retention):
            sweeper.run([other], now)
        assert set(as_storage(table.storage).list_files()) > committed_paths, "it may be committed"
        rows = other.read([name for name in SCHEMA.arrow_schema().names if name != "chunk"])
        other.append(with_chunk_column(rows, 0), 1)
        committed_paths = {file.path for file in other.data_files()}
        for now in (1e6, 1e6 + other.storage.min_file_retention):
            sweeper.run([other], now)
        assert set(as_storage(table.storage).list_files()) == committed_paths


def test_source_files_are_archived_once_and_soon_after_they_appear(
    bucket: str, spark: SparkSession
) -> None:
    """Those that are there at the start of a drain, and one that comes later."""
    with workspace(SOURCE.format(bucket=bucket), "groups: []\n") as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with connect_database(settings, "tests") as connection:
            names: list[str] = []

            def record(units: list[str]) -> None:
                names.extend(unit.removeprefix(f"{bucket}/in/") for unit in units)

            def put(name: str, number: int) -> None:
                line = f'{{"ts": "2026-01-01T00:00:0{number}Z", "n": {number}}}\n'
                put_object(f"{bucket}/in/{name}", line.encode())

            put("0.jsonl", 0)
            put(".1.jsonl", 1)
            put("1.jsonl", 1)
            drained = archive_present_files(settings, connection, spark)
            assert sorted(drained) == [f"{bucket}/in/0.jsonl", f"{bucket}/in/1.jsonl"]
            readers = make_source_readers(settings, connection, spark, record)
            readers.start()
            for _ in range(5):
                readers.update()
                time.sleep(0.1)
            put("2.jsonl", 2)
            update_until(readers, lambda: bool(names))
            assert readers.is_active()
            readers.stop()
            assert names == ["2.jsonl"], "each once"
            assert not readers.has_unread(SourceKey("cpu"))
            counts = connection.execute("SELECT sum(read), sum(archived), count(*) FROM units")
            assert counts.fetchone() == (3, 3, 3)


def test_relation_is_read_from_an_object_when_it_differs(bucket: str) -> None:
    url = f"{bucket}/hosts.csv"
    declared = {"columns": {"host": "string"}, "key": ["host"], "source": {"file": url}}
    relation = Relation.model_validate(declared)
    reader = ObjectRelationReader("hosts", relation, relation.source)  # type: ignore[arg-type]
    with pytest.raises(MoiraeError, match="the object does not exist"):
        reader.fetch("")
    put_object(url, b"\xef\xbb\xbfhost\r\na\r\n")
    first = reader.fetch("")
    assert first is not None and first.rows == [{"host": "a"}]
    assert reader.fetch(first.fingerprint) is None
    put_object(url, b"host\nb")
    second = reader.fetch(first.fingerprint)
    assert second is not None and second.rows == [{"host": "b"}]
