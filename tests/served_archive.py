"""A running server and recall process of the workspace of `tests.api_data`, with rows of three days."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psutil

from archiver.chunks.chunk import CutPolicy
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.config.table_schemas import stream_schema
from moirae.queries.task import has_recall_process
from moirae.runtime.storage import open_storage
from tests.api_data import RULES, START, WORKSPACE
from tests.served import Served, serve

SLOW = 240.0  # seconds: Spark may have to start


@contextmanager
def serve_with_archive() -> Iterator[Served]:
    """The server, while a recall process runs."""
    with serve(WORKSPACE, RULES) as running:
        _archive(running)
        command = ["run", "recall", "--workspace", str(running.settings.file)]
        with running.log.with_name("recall.log").open("wb") as log:
            process = psutil.Popen(
                [sys.executable, "-m", "moirae", *command], stdout=log, stderr=log
            )
        try:
            deadline = time.monotonic() + SLOW
            while not has_recall_process(running.connection):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            yield running
        finally:
            process.terminate()
            process.wait(60)


def _archive(served: Served) -> None:
    """A value a minute of one host on three days: 95 each ten hours, 85 five hours later."""
    schema = stream_schema("cpu", served.settings.streams["cpu"])
    policy = CutPolicy(1_000, duration_to_micros(timedelta(days=1)))
    writer = ArchiveWriter(
        open_storage(served.settings), [schema], policy, served.connection, lambda: None
    )
    lines = []
    for minute in range(3 * 24 * 60):
        ts = START - timedelta(days=2) + timedelta(minutes=minute)
        value = {0: 95.0, 300: 85.0}.get(minute % 600, 50.0)
        row = {"ts": ts.isoformat(), "host": "host0", "cpu": value}
        lines.append(json.dumps(row).encode())
    unit = SourceUnit("cpu", "rows", JSONL, lambda: iter(lines))
    writer.ingest([unit], to_micros(datetime.now(UTC)))
