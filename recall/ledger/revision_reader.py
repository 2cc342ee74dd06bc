"""Reads revision streams: from the database, and from the archive what is left there only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sql
from archiver.delta import ArchivedRevision, RevisionTables
from archiver.storage import StorageRoot
from recall.errors import UnknownStream
from recall.ledger.revision_archive import table_name
from sql.stages import RevisionStreamRow, RowRevisionGateway, RowRevisionRow, ValidRow

# Revisions that are read at once.
DEFAULT_LIMIT = 1_000


@dataclass(frozen=True)
class RevisionBatch:
    """Consecutive revisions of a stream.

    `last`: the number to read on from. `boundary`: the event time before which all events of the
    rule have ended; None: not known.
    """

    rule: str
    name: str
    revisions: Sequence[RowRevisionRow]
    last: int
    boundary: datetime | None


def find_stream(connection: sql.Connection, name: str) -> RevisionStreamRow:
    """The stream NAME, ALERT/NAME or GROUP/ALERT/NAME of a recall or stage.

    Raises `UnknownStream` unless there is exactly one.
    """
    streams = RowRevisionGateway(connection).find_streams(name)
    if len(streams) == 1:
        return streams[0]
    if not streams:
        raise UnknownStream(f"no recall or stage {name!r} has revisions")
    names = ", ".join(f"{stream.rule}/{stream.name}" for stream in streams)
    raise UnknownStream(f"ambiguous recall or stage {name!r}: {names}")


def read_revisions(
    connection: sql.Connection,
    root: StorageRoot,
    name: str,
    after: int = 0,
    limit: int | None = DEFAULT_LIMIT,
) -> RevisionBatch:
    """The revisions of a recall or stage behind a number, in order and without gaps.

    `root`: of the archive. `name`: see `find_stream`. `limit`: None for all. Raises
    `UnknownStream`.
    """
    stream = find_stream(connection, name)
    # Read before the revisions: those up to the boundary are then among them, or were read before.
    boundary = RowRevisionGateway(connection).boundary(stream.rule)
    revisions = RevisionReader(connection, root).read(stream.id, after, limit)
    last = revisions[-1].seq if revisions else after
    return RevisionBatch(stream.rule, stream.name, revisions, last, boundary)


class RevisionReader:
    """The revisions of all streams, wherever they are."""

    def __init__(self, connection: sql.Connection, root: StorageRoot) -> None:
        self._gateway = RowRevisionGateway(connection)
        self._root = root

    def read(self, stream_id: int, after: int, limit: int | None) -> list[RowRevisionRow]:
        """Up to `limit` revisions of a stream behind a number, in order."""
        rows = self._gateway.read(stream_id, after=after, limit=limit)
        # Read after the rows: what was deleted before is archived up to this number.
        stream = self._gateway.get_stream(stream_id)
        while after < stream.trimmed_to:
            last = stream.trimmed_to
            if limit is not None:
                last = min(last, after + limit)
            by_number = {row.seq: row for row in rows if row.seq <= last}
            for revision in self._tables(stream).read(after, last):
                by_number.setdefault(revision.seq, _parse_archived(revision))
            if by_number:
                merged = [by_number[number] for number in sorted(by_number)]
                if limit is None:
                    merged += [row for row in rows if row.seq > last]
                return merged
            after = last  # they have expired
        return [row for row in rows if row.seq > after]

    def read_events(
        self,
        rule: str,
        name: str,
        *,
        all_revisions: bool,
        start: datetime | None,
        end: datetime | None,
    ) -> list[ValidRow]:
        """The present rows of events in a range of event time, or all revisions of them."""
        rows = self._gateway.list_rows(
            rule, name, all_revisions=all_revisions, start=start, end=end
        )
        streams = [
            item for item in self._gateway.list_streams() if (item.rule, item.name) == (rule, name)
        ]
        if not streams or not streams[0].trimmed_to:
            return rows
        (stream,) = streams
        archived = self._tables(stream).read_events(start, end, stream.trimmed_to)
        ended = {(item.eid, item.version) for item in archived if item.op == "boundary"}
        if not ended:
            return rows
        # Of these events the archive has all revisions.
        merged = [row for row in rows if (str(row.eid), row.version) not in ended]
        merged += self._join_events(
            rule, [item for item in archived if (item.eid, item.version) in ended], all_revisions
        )
        if all_revisions:
            return sorted(merged, key=lambda row: row.seq)
        return sorted(merged, key=lambda row: (row.ts, row.seq))

    def _join_events(
        self, rule: str, archived: Sequence[ArchivedRevision], all_revisions: bool
    ) -> list[ValidRow]:
        """Archived revisions with the keys of their events, or those that are present rows."""
        selected = {item.seq: item for item in archived}
        if not all_revisions:
            last = {(item.eid, item.version, item.row_key): item for item in archived}
            selected = {
                item.seq: item for item in last.values() if item.op not in ("delete", "boundary")
            }
        keys = self._gateway.list_event_keys(rule, {UUID(item.eid) for item in archived})
        rows = []
        for item in selected.values():
            eid = UUID(item.eid)
            key = keys.get((eid, item.version))
            if key is not None:
                rows.append(
                    ValidRow(
                        item.seq, eid, item.version, item.ts, item.op, item.row_key, item.row, key
                    )
                )
        return rows

    def _tables(self, stream: RevisionStreamRow) -> RevisionTables:
        return RevisionTables(self._root, table_name(stream), stream.rule)


def _parse_archived(revision: ArchivedRevision) -> RowRevisionRow:
    return RowRevisionRow(**{**vars(revision), "eid": UUID(revision.eid), "at": None})
