"""Whether settled events and contexts of the database are archived, each once."""

from collections import Counter
from itertools import compress

import sql
from archiver.chunks import last_deleted_chunk
from archiver.delta.sequenced_table import CONTEXTS, EVENTS, SequencedTable
from archiver.ingest import Catalog
from archiver.times import micros_column
from moirae.config import Settings
from moirae.inspect.finding import Finding
from moirae.runtime.storage import open_storage
from sql.events import EventGateway
from sql.similarity import CorpusGateway

ARCHIVED_TABLES = (EVENTS.name, CONTEXTS.name)


def check_archived_rows(settings: Settings, connection: sql.Connection, name: str) -> Finding:
    """Settled rows of PostgreSQL are in an archive table, each once.

    PostgreSQL may have deleted rows of the time of deleted chunks.
    """
    table_spec = next(spec for spec in (EVENTS, CONTEXTS) if spec.name == name)
    list_settled = _settled_events if table_spec is EVENTS else _settled_contexts
    table = SequencedTable(open_storage(settings), table_spec)
    archived_rows = table.read()
    archived = list(
        zip(
            archived_rows["rule"].to_pylist(),
            archived_rows["version"].to_pylist(),
            archived_rows["eid"].to_pylist(),
            strict=True,
        )
    )
    settled = list_settled(connection, table.last_number())
    deleted_chunk = last_deleted_chunk(Catalog(connection).chunk_records())
    expected = set(archived)
    if deleted_chunk is not None and deleted_chunk.to_ts is not None:
        ts = micros_column(archived_rows, "ts")
        expected = set(compress(archived, ts >= deleted_chunk.to_ts))
    problems: list[str] = []
    for key, count in Counter(archived).items():
        if count > 1:
            problems.append(f"{' '.join(key)} is archived {count} times")
    for key in settled - set(archived):
        problems.append(f"{' '.join(key)} is settled, not archived")
    for key in expected - settled:
        problems.append(f"{' '.join(key)} is archived, not settled")
    check = f"settled {name} are archived exactly once"
    return Finding(check, problems, f"{len(archived):,} {name}")


def _settled_events(connection: sql.Connection, last_number: int) -> set[tuple[str, str, str]]:
    """Rule, version and ID of the settled events up to a sequence number."""
    rows = EventGateway(connection).list_settled_ids(last_number)
    return {(row.rule, row.version, row.eid) for row in rows}


def _settled_contexts(connection: sql.Connection, last_number: int) -> set[tuple[str, str, str]]:
    """Rule, version and event of the contexts up to a corpus number."""
    rows = CorpusGateway(connection).list_ids(last_number)
    return {(row.rule, row.version, row.eid) for row in rows}
