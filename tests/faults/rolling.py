"""A process that archives numbered rows and rolls chunks as fast as it can, until killed.

Unit k holds the rows k·100 … k·100+99, a millisecond of event time each; every fifth unit also one late row, which lies
3,000 rows behind. A unit that was read before is read again from the same rows.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from archiver.chunk import CutPolicy
from archiver.ingest import Archive, Unit
from archiver.lifecycle import Policy
from archiver.roller import Roller
from archiver.times import from_micros, span
from moirae import database
from moirae.live.schemas import schema
from moirae.settings import from_environment

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
        yield orjson.dumps({"ts": from_micros(ts).isoformat(), "n": number, "host": f"h{number % 7}"})


def main(workspace: Path) -> None:
    """Until killed."""
    settings = from_environment(workspace)
    connection = database.connect(settings, "rolling")
    root = Path(settings.archive)
    schemas = [schema(name, declared) for name, declared in settings.streams.items()]
    chunks = settings.chunks
    archive = Archive(root, schemas, CutPolicy(chunks.rows, span(chunks.age)), connection, lambda: None)
    roller = Roller(root, schemas, RETENTION)
    assert chunks.keep is not None
    policy = Policy(chunks.recent, span(chunks.keep), RETENTION)
    unit = len(archive.catalog.done_units("s"))
    while True:
        archive.ingest([Unit("s", str(unit), "jsonl", lambda unit=unit: _lines(unit))], 1 << 60)
        unit += 1
        archive.done(roller.done())
        roller.take(archive.roll(policy, roller.needs, [archive.watermark("s")], set))
        time.sleep(0.005)
