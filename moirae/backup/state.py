"""One state of a running workspace: a snapshot of the database, and what else belongs to it."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError

import sql
from archiver.delta import (
    ArchiveTable,
    Commit,
    TableVersion,
    list_tables,
    read_commits,
    read_newest_version,
    read_version,
)
from archiver.storage import StorageRoot
from moirae.backup.landing_copies import LandingCopies
from moirae.backup.manifest import RecordTotals
from moirae.backup.plan import choose_version
from moirae.errors import MoiraeError
from sql.archive import UnitGateway
from sql.workspace import DatabaseSnapshot, WorkspaceGateway, WorkspaceRow, read_snapshot

# A snapshot is taken again while tables change such that it is not known to which side of it a
# change belongs. That takes milliseconds, and such changes are rare.
_MAX_SNAPSHOTS = 50
_PAUSE = 0.1  # seconds between two of them


@dataclass(frozen=True)
class WorkspaceState:
    """A state. `snapshot_id`: for pg_dump, while the block of `take_state` runs."""

    identity: WorkspaceRow
    snapshot_id: str
    taken_at: datetime
    migration: int
    accounting: Mapping[str, RecordTotals]
    tables: Sequence[TableVersion]
    batches: Sequence[tuple[str, Path]]


@contextmanager
def take_state(
    connection: sql.Connection, root: StorageRoot, landing: LandingCopies
) -> Iterator[WorkspaceState]:
    """The state of a workspace at one moment, while its processes run on.

    The connection has no transaction, and reads the snapshot while the block runs. Raises
    `MoiraeError` if the tables never rest.
    """
    missing_before: set[tuple[str, str]] = set()
    for _ in range(_MAX_SNAPSHOTS):
        landing.clear()
        versions_before = _read_versions(root)
        landing.collect()
        with read_snapshot(connection) as snapshot:
            landing.collect()
            tables = _choose_tables(root, versions_before, snapshot)
            # A batch that came and was archived within this moment has no copy: the next attempt
            # finds it archived. One that has none again was removed by somebody.
            missing = set(snapshot.list_open_batches()) - landing.names()
            is_complete = missing <= missing_before
            missing_before = missing
            if tables is not None and is_complete:
                yield WorkspaceState(
                    identity=WorkspaceGateway(connection).get(),
                    snapshot_id=snapshot.id,
                    taken_at=snapshot.taken_at,
                    migration=snapshot.last_migration(),
                    accounting=_read_accounting(connection),
                    tables=tables,
                    batches=landing.list_files(),
                )
                return
        time.sleep(_PAUSE)
    raise MoiraeError(
        "the archive changed during each attempt to take one state of it: try again when less "
        "is deleted, clustered or rewritten"
    )


def _read_versions(root: StorageRoot) -> dict[str, int]:
    """The newest version of each table, by name."""
    versions: dict[str, int] = {}
    for table in list_tables(root):
        try:
            versions[table.name] = read_newest_version(table)
        except TableNotFoundError:
            continue  # removed meanwhile, or without its first commit yet
    return versions


def _choose_tables(
    root: StorageRoot, versions_before: Mapping[str, int], snapshot: DatabaseSnapshot
) -> list[TableVersion] | None:
    """The versions that belong to the snapshot; None: they cannot be told."""
    tables = {table.name: table for table in list_tables(root)}
    if not versions_before.keys() <= tables.keys():
        return None  # one was removed or renamed
    chosen: list[TableVersion] = []
    try:
        for name, before in versions_before.items():
            version = _choose_version(tables[name], before, snapshot)
            if version is None:
                return None
            chosen.append(read_version(tables[name], version))
        for name in tables.keys() - versions_before.keys():
            if read_newest_version(tables[name]) > 0:  # made meanwhile, with content
                return None
    except (FileNotFoundError, TableNotFoundError):
        return None  # a table was removed, or its log cleaned up
    return chosen


def _choose_version(table: ArchiveTable, before: int, snapshot: DatabaseSnapshot) -> int | None:
    newest = read_newest_version(table)
    commits = read_commits(table, before + 1, newest)

    def is_counted(commit: Commit) -> bool:
        return snapshot.count_archived(_read_units(table, commit)) > 0

    return choose_version(before, commits, table.kind == "stream", is_counted)


def _read_units(table: ArchiveTable, commit: Commit) -> list[int]:
    """The ledger ids of the source units whose rows a commit appends."""
    units: set[int] = set()
    for path in commit.added:
        rows = pq.ParquetFile(table.storage.open_data_file(path)).read(columns=["_unit"])
        units.update(pa.chunked_array(rows["_unit"]).unique().drop_null().to_pylist())
    return sorted(units)


def _read_accounting(connection: sql.Connection) -> dict[str, RecordTotals]:
    accounting: dict[str, RecordTotals] = {}
    for counts in UnitGateway(connection).sum_by_stream():
        accounting[counts.stream] = RecordTotals(
            counts.read, counts.archived, counts.duplicates, counts.dead_lettered
        )
    return accounting
