"""A process that archives numbered rows, settles an event and an alert for each unit, and forgets what has left,
until killed.

Unit k holds the rows k·100 … k·100+99, a millisecond of event time each, one of them twice, and
every seventh unit a line that is no row. Its event happens with its last row.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import orjson

from archiver.chunks.chunk import CutPolicy
from archiver.chunks.lifecycle import LifecyclePolicy
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.delta.sequenced_table import CONTEXTS, EVENTS
from archiver.formats import JSONL
from archiver.ingest.writer import ArchiveWriter, SourceUnit
from archiver.times import duration_to_micros, from_micros
from moirae.config.settings import load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.live.outbox import open_outboxes
from moirae.live.retention import Retention
from moirae.runtime import database

ROWS = 100
START = 1_767_225_600_000_000
# Longer than a commit takes on a busy machine: what is not committed yet is no part of the table
# either.
RETENTION = 5.0

_ALERT = """
WITH alert AS (
    INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at, last_at,
        events, ends_at)
    VALUES (%(id)s, %(id)s, 'g/r', '1', 'f', '{}', '{}', '{}', 'resolved', %(at)s, %(at)s, %(at)s, 1, %(at)s)
    ON CONFLICT DO NOTHING RETURNING id), note AS (
    INSERT INTO alert_notes (alert_id, kind, author, text) SELECT id, 'note', 'ada', 'x' FROM alert)
INSERT INTO judgements (eid, past_eid, helps, author) SELECT id, id, true, 'ada' FROM alert"""
_SETTLED = (
    "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
    " VALUES (%s, 'g/r', '1', %s, 'f', '{}', '{}', true) ON CONFLICT DO NOTHING"
)


def _lines(unit: int) -> Iterator[bytes]:
    for number in range(unit * ROWS, (unit + 1) * ROWS):
        row = orjson.dumps(
            {
                "ts": from_micros(START + number * 1000).isoformat(),
                "n": number,
                "host": f"h{number % 7}",
            }
        )
        yield row
    yield row
    if unit % 7 == 0:
        yield b"no row"


def main(workspace: Path) -> None:
    """Until killed."""
    settings = load_settings_from_environment(workspace)
    connection = database.connect_database(settings, "retaining")
    root, chunks = Path(settings.archive), settings.chunks
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    archive = ArchiveWriter(
        root,
        schemas,
        CutPolicy(chunks.rows, duration_to_micros(chunks.age)),
        connection,
        lambda: None,
    )
    roller, boxes = (
        ChunkMaintenance(root, schemas, RETENTION, (EVENTS, CONTEXTS)),
        open_outboxes(connection, root),
    )
    retention = Retention(
        connection, settings, boxes, lambda _: (), timedelta(seconds=1), timedelta(0)
    )
    assert chunks.keep is not None
    policy = LifecyclePolicy(chunks.recent, duration_to_micros(chunks.keep), RETENTION)
    newest = archive.progress["s"].newest
    unit = 0 if newest is None else (newest - START) // 1000 // ROWS + 1
    while True:
        archive.ingest(
            [SourceUnit("s", f"landing/{unit}.jsonl", JSONL, lambda unit=unit: _lines(unit))],
            1 << 57,
        )
        happened_at = from_micros(START + (unit * ROWS + ROWS - 1) * 1000)
        connection.execute(_SETTLED, (UUID(int=unit), happened_at))
        connection.execute(_ALERT, {"id": UUID(int=unit), "at": happened_at})
        unit += 1
        archive.record_results(roller.collect_results())
        roller.submit(
            archive.update_chunk_states(policy, roller.requirements, [archive.watermark("s")], set)
        )
        if unit % 5 == 0:
            for box in boxes.values():
                box.flush(archive.chunks)
            retention.run_once(archive)
