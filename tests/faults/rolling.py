"""A process that archives numbered rows and rolls chunks as fast as it can, until killed.

Unit k holds the rows k·100 … k·100+99, a millisecond of event time each; every fifth unit also one
late row, which lies 3,000 rows behind. A unit that was read before is read again from the same
rows.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from archiver.chunks.chunk import CutPolicy
from archiver.chunks.lifecycle import LifecyclePolicy
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.formats import JSONL
from archiver.ingest.writer import ArchiveWriter, SourceUnit
from archiver.times import duration_to_micros, from_micros
from moirae.config.settings import load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.runtime import database
from sql.archive import UnitGateway

ROWS, BACK, LATE = 100, 3_000, 1 << 40
START = 1_767_225_600_000_000
RETENTION = 5.0


def rows(unit: int) -> Iterator[tuple[int, int]]:
    """Number and time of each row of a unit."""
    for number in range(unit * ROWS, (unit + 1) * ROWS):
        yield number, START + number * 1000
    if unit % 5 == 0 and unit * ROWS > BACK:
        yield LATE + unit, START + (unit * ROWS - BACK) * 1000


def _lines(unit: int) -> Iterator[bytes]:
    for number, ts in rows(unit):
        yield orjson.dumps(
            {"ts": from_micros(ts).isoformat(), "n": number, "host": f"h{number % 7}"}
        )


def main(workspace: Path) -> None:
    """Until killed."""
    settings = load_settings_from_environment(workspace)
    connection = database.connect_database(settings, "rolling")
    root = Path(settings.archive)
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    chunks = settings.chunks
    archive = ArchiveWriter(
        root,
        schemas,
        CutPolicy(chunks.rows, duration_to_micros(chunks.age)),
        connection,
        lambda: None,
    )
    roller = ChunkMaintenance(root, schemas, RETENTION)
    assert chunks.keep is not None
    policy = LifecyclePolicy(chunks.recent, duration_to_micros(chunks.keep), RETENTION)
    unit = len(UnitGateway(connection).finished_names("s"))
    while True:
        archive.ingest([SourceUnit("s", str(unit), JSONL, lambda unit=unit: _lines(unit))], 1 << 57)
        unit += 1
        archive.record_results(roller.collect_results())
        tasks = archive.update_chunk_states(
            policy, roller.requirements, [archive.watermark("s")], set
        )
        roller.submit(tasks, archive.catalog.settled_places())
        time.sleep(0.005)
