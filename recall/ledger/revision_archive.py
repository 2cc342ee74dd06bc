"""Archives revision streams as Delta tables, one process at a time."""

import re

import sql
from archiver.delta import ArchivedRevision, RevisionTables
from archiver.storage import StorageRoot

_BATCH_REVISIONS = 20_000  # in one commit


class RevisionArchive:
    """Copies revisions from the database to the archive, each once."""

    def __init__(self, connection: sql.Connection, root: StorageRoot) -> None:
        self._connection = connection
        self._root = root
        self._gateway = sql.RowRevisionGateway(connection)

    def flush(self) -> None:
        """Archive all revisions, unless another process is doing so."""
        for stream in self._gateway.list_streams():
            if stream.archived >= stream.last_seq:
                continue
            with self._connection.transaction():
                if not self._gateway.lock_archive():
                    return
                self._flush(stream)

    def _flush(self, stream: sql.RevisionStreamRow) -> None:
        tables = RevisionTables(self._root, table_name(stream), stream.rule)
        last = tables.last_number()
        while rows := self._gateway.read(stream.id, after=last, limit=_BATCH_REVISIONS):
            revisions = []
            for row in rows:
                revision = ArchivedRevision(
                    seq=row.seq,
                    eid=str(row.eid),
                    ts=row.ts,
                    op=row.op,
                    row_key=row.row_key,
                    row=row.row,
                    old_row=row.old_row,
                    version=row.version,
                )
                revisions.append(revision)
            tables.append(revisions)
            last = rows[-1].seq
        self._gateway.record_archived(stream.id, last)


def table_name(stream: sql.RevisionStreamRow) -> str:
    """The folder of a stream: its name, rule and number, as far as folders may have such names."""
    rule = re.sub(r"[^A-Za-z0-9]+", "_", stream.rule).strip("_")
    return f"{rule}.{stream.name}-{stream.id}"
