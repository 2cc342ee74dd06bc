"""An archive in object storage: rows come in, chunks are rolled over, the past is asked, nothing is wrong; and whoever
dies on the way leaves no row."""

import subprocess
import sys
from pathlib import Path

from archiver.chunks.maintenance import ChunkMaintenance
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum
from archiver.read.reader import Reader
from archiver.storage.base import as_storage
from moirae.inspect.doctor import run_checks
from moirae.runtime import storage
from tests.integration.history import SCHEMA, go_on, history
from tests.integration.test_late_rows import archive, bring, roll

CHUNKS, ROWS = 5, 100


def test_history_is_rolled_over_and_asked(bucket: str) -> None:
    with history(CHUNKS, ROWS, bucket) as past:
        root = storage.open_storage(past.settings)
        writer, roller = archive(past), ChunkMaintenance(root, [SCHEMA], 0.4)
        try:
            roll(past, writer, roller, 10_000)
            assert [chunk.state for chunk in writer.chunks[:4]] == ["old", "old", "old", "recent"]
            bring(writer, "late", [(5, "h0", 1000)])
        finally:
            roller.stop()
        past.rows.append((5, "h0", 1000))
        assert all(writer.tables["past"].count_unclustered(chunk) == 0 for chunk in range(1, 4))
        with past.manager() as manager:
            task = past.ask(1)
            go_on(manager, lambda: past.task(task)["state"] == "done")
        (*_, last) = past.revisions(task)
        assert last["answer"] == [past.whole()], last
        reader = Reader(root, [SCHEMA], 1 << 20)
        reader.refresh_present({chunk.id for chunk in writer.chunks})
        assert sum(map(len, reader.snapshot("past", None, None).rows)) == CHUNKS * ROWS + 1
        assert [
            finding for finding in run_checks(past.settings, past.connection) if finding.problems
        ] == []
        assert not Path(past.settings.home, "archive").exists()


# Dies when its file is uploaded, before it is part of the table.
_WRITER = """
import sys
from pathlib import Path
from unittest.mock import patch
import pyarrow as pa
from archiver.log import Log
from archiver.table import StreamTable
from moirae import storage
from moirae.settings import from_environment
from tests.integration.history import SCHEMA

def waits(*values, **named):
    print("uploaded", flush=True)
    sys.stdin.read()

table = StreamTable(storage.root(from_environment(Path(sys.argv[1]))), SCHEMA)
with patch.object(Log, "commit", waits):
    rows = table.read([name for name in table._arrow.names if name != "chunk"])
    table.append(rows.append_column("chunk", pa.array([0] * len(rows), pa.int32())), 1)
"""


def test_a_writer_killed_before_its_commit_leaves_no_row(bucket: str) -> None:
    with history(1, ROWS, bucket) as past:
        table = StreamTable(storage.open_storage(past.settings), SCHEMA)
        known = {file.path for file in table.data_files()}
        command = [sys.executable, "-c", _WRITER, str(past.settings.file)]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None and writer.stdout.readline() == "uploaded\n"
        writer.kill()
        writer.communicate()
        assert set(as_storage(table.storage).list_files()) > known
        other = StreamTable(storage.open_storage(past.settings), SCHEMA)
        assert (
            other.read(["v"]).num_rows == ROWS
            and {file.path for file in other.data_files()} == known
        )
        assert [
            finding for finding in run_checks(past.settings, past.connection) if finding.problems
        ] == []
        sweeper = Vacuum(1.0)
        for now in (0.0, other.storage.min_file_retention):
            sweeper.run([other], now)
        assert set(as_storage(table.storage).list_files()) == known
