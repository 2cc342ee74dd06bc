"""A process that rewrites files for changed columns while it archives, until it is killed.

Unit k of a stream holds the rows k·100 … k·100+99, a millisecond of event time each; every fifth
also the rows of the unit before it, which are duplicates.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from archiver.chunks import ChunkMaintenance, CutPolicy, LifecyclePolicy
from archiver.delta import column_rewrite
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.times import duration_to_micros, from_micros
from moirae.config import load_settings_from_environment, stream_schema
from moirae.live.column_rewrites import ColumnRewrites
from moirae.runtime import connect_database
from sql.archive import ColumnRewriteGateway, UnitGateway

ROWS = 100
START = 1_767_225_600_000_000
RETENTION = 5.0


def numbers(unit: int) -> list[int]:
    """The rows of a unit."""
    first = (unit - 1 if unit and unit % 5 == 0 else unit) * ROWS
    return list(range(first, (unit + 1) * ROWS))


def record(number: int) -> dict[str, Any]:
    """A record, whatever is declared."""
    ts = from_micros(START + number * 1000).isoformat()
    return {"ts": ts, "n": number, "host": f"h{number % 7}", "v": number * 3, "f": number / 8}


def _unit(stream: str, number: int) -> SourceUnit:
    def read() -> Iterator[bytes]:
        return (orjson.dumps(record(row)) for row in numbers(number))

    return SourceUnit(stream, str(number), JSONL, read)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_at(point: str, calls: int) -> None:
    """Kill this process at a point of its rewrites, after so many calls: `step` before a file is
    written, `file` when half of it is, `commit` before and `committed` after the commit.
    """
    owner: Any = column_rewrite if point == "file" else column_rewrite.ColumnRewrite
    name = {"step": "_write", "file": "write_rows"}.get(point, "_commit")
    original: Callable[..., None] = getattr(owner, name)
    count = 0

    def call(*arguments: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        if count < calls and point in ("step", "file"):
            original(*arguments, **options)
            return
        if point == "file":
            schema, rows, *others = arguments
            original(schema, rows.slice(0, len(rows) // 2), *others, **options)
        elif point == "committed":
            original(*arguments, **options)
        _kill()

    setattr(owner, name, call)


def main(workspace: Path, point: str | None = None, calls: int = 0) -> None:
    """Archive and rewrite until killed."""
    if point is not None:
        _kill_at(point, calls)
    settings = load_settings_from_environment(workspace)
    connection = connect_database(settings, "rewriting")
    root = Path(settings.archive)
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    cut_policy = CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age))
    archive = ArchiveWriter(root, schemas, cut_policy, connection, lambda: None)
    maintenance = ChunkMaintenance(root, schemas, RETENTION)
    policy = LifecyclePolicy(settings.chunks.recent, None, RETENTION)
    rewrites = ColumnRewrites(root, archive.tables, ColumnRewriteGateway(connection))
    rewrites.start()
    units = UnitGateway(connection)
    positions = {schema.name: len(units.finished_names(schema.name)) for schema in schemas}
    while True:
        rewrites.update()
        for stream, position in positions.items():
            if not archive.is_waiting(stream):
                archive.ingest([_unit(stream, position)], 1 << 57)
                positions[stream] += 1
        archive.record_results(maintenance.collect_results())
        watermarks = [archive.watermark(stream) for stream in positions]
        maintenance.submit(
            archive.update_chunk_states(policy, maintenance.requirements, watermarks, set)
        )
        time.sleep(0.02)
