"""A process that archives numbered rows, settles an event for each unit, and forgets what has left, until killed.

Unit k holds the rows k·100 … k·100+99, a millisecond of event time each, one of them twice, and every seventh unit a
line that is no row. Its event happens with its last row.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import orjson

from archiver.chunk import CutPolicy
from archiver.ingest import Archive, Unit
from archiver.lifecycle import Policy
from archiver.numbered import CONTEXTS, EVENTS
from archiver.roller import Roller
from archiver.times import from_micros, span
from moirae import database
from moirae.live.outbox import outboxes
from moirae.live.retention import Retention
from moirae.live.schemas import schema
from moirae.settings import from_environment

ROWS = 100
START = 1_767_225_600_000_000
# Longer than a commit takes on a busy machine: what is not committed yet is no part of the table either.
RETENTION = 5.0

_SETTLED = (
    "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
    " VALUES (%s, 'g/r', '1', %s, 'f', '{}', '{}', true) ON CONFLICT DO NOTHING"
)


def _lines(unit: int) -> Iterator[bytes]:
    for number in range(unit * ROWS, (unit + 1) * ROWS):
        row = orjson.dumps(
            {"ts": from_micros(START + number * 1000).isoformat(), "n": number, "host": f"h{number % 7}"}
        )
        yield row
    yield row
    if unit % 7 == 0:
        yield b"no row"


def main(workspace: Path) -> None:
    """Until killed."""
    settings = from_environment(workspace)
    connection = database.connect(settings, "retaining")
    root, chunks = Path(settings.archive), settings.chunks
    schemas = [schema(name, declared) for name, declared in settings.streams.items()]
    archive = Archive(root, schemas, CutPolicy(chunks.rows, span(chunks.age)), connection, lambda: None)
    roller, boxes = Roller(root, schemas, RETENTION, (EVENTS, CONTEXTS)), outboxes(connection, root)
    retention = Retention(connection, settings, boxes, lambda _: (), timedelta(seconds=1), timedelta(0))
    assert chunks.keep is not None
    policy = Policy(chunks.recent, span(chunks.keep), RETENTION)
    newest = archive.progress["s"].newest
    unit = 0 if newest is None else (newest - START) // 1000 // ROWS + 1
    while True:
        archive.ingest([Unit("s", f"landing/{unit}.jsonl", "jsonl", lambda unit=unit: _lines(unit))], 1 << 60)
        connection.execute(_SETTLED, (UUID(int=unit), from_micros(START + (unit * ROWS + ROWS - 1) * 1000)))
        unit += 1
        archive.done(roller.done())
        roller.take(archive.roll(policy, roller.needs, [archive.watermark("s")], set))
        if unit % 5 == 0:
            for box in boxes.values():
                box.flush(archive.chunks)
            retention.step(archive)
