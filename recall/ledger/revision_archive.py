"""Archives revision streams as Delta tables, one process at a time."""

import re
import threading
from datetime import datetime, timedelta

import structlog
from deltalake.exceptions import DeltaError

import sql
from archiver.delta import ArchivedRevision, RevisionTables
from archiver.errors import ArchiverError
from archiver.periodic import Timer
from archiver.storage import StorageRoot
from recall.ledger.trimming import TRIM_AGE, RecallTrimmer
from sql.stages import RevisionStreamRow, RowRevisionGateway

_LOG = structlog.get_logger()

_BATCH_REVISIONS = 20_000  # in one commit
# Seconds between two copies: each costs some ten milliseconds per stream with new revisions,
# however few these are.
_FLUSH_INTERVAL = 20.0
_EXPIRE_INTERVAL = 600.0  # seconds between two deletions of expired revisions
_TRIM_INTERVAL = 60.0  # seconds
_RECOVERABLE_ERRORS = (sql.DatabaseError, ArchiverError, DeltaError, OSError)


class RevisionArchive:
    """Copies revisions from the database to the archive, each once, on a connection of its own.

    `history`: seconds for which superseded versions of the tables, and their change feeds, stay
    readable. `trim_age`: see `recall.ledger.trimming`.
    """

    def __init__(
        self,
        connection: sql.Connection,
        root: StorageRoot,
        history: float,
        trim_age: timedelta = TRIM_AGE,
    ) -> None:
        self._connection = connection
        self._root = root
        self._history = history
        self._gateway = RowRevisionGateway(connection)
        self._trimmer = RecallTrimmer(connection, trim_age)
        self._expire_timer = Timer(_EXPIRE_INTERVAL)
        self._trim_timer = Timer(_TRIM_INTERVAL)
        # Up to which event time the revisions of each stream have been deleted, by its ID.
        self._expired_to: dict[int, datetime] = {}

    def run(self, stop: threading.Event) -> None:
        """Copy at intervals until `stop` is set, and once more then. What fails is retried."""
        is_stopped = False
        while not is_stopped:
            is_stopped = stop.wait(_FLUSH_INTERVAL)
            try:
                self.flush()
                if not is_stopped and self._trim_timer.is_due():
                    self._trim_timer.restart()
                    self.trim()
                if not is_stopped and self._expire_timer.is_due():
                    self._expire_timer.restart()
                    self.expire()
            except _RECOVERABLE_ERRORS as error:
                _LOG.warning(
                    "revisions not archived", action="revisions_not_archived", error=str(error)
                )
                if self._connection.closed:
                    return

    def flush(self) -> None:
        """Archive all revisions, unless another process is doing so."""
        for stream in self._gateway.list_streams():
            if stream.archived >= stream.last_seq:
                continue
            with self._connection.transaction():
                if not self._gateway.lock_archive():
                    return
                self._flush(stream)

    def _flush(self, stream: RevisionStreamRow) -> None:
        tables = self._tables(stream)
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

    def trim(self) -> None:
        """Delete what the archive has, and what nobody reads of ended recalls."""
        self._trimmer.trim_tasks()
        for stream in self._gateway.list_streams():
            with self._connection.transaction():
                if not self._gateway.lock_archive():
                    return
                self._trimmer.trim_stream(stream.id)

    def expire(self) -> None:
        """Delete the revisions of events before the deleted chunks' end, and files no longer read.

        Those of events that are open, and later ones of their rule, stay. One process at a time.
        """
        for stream in self._gateway.list_streams():
            before = self._gateway.expired_before(stream.rule)
            if before is None or stream.archived == 0:
                continue
            if self._expired_to.get(stream.id) == before:
                continue
            with self._connection.transaction():
                if not self._gateway.lock_archive():
                    return
                self._tables(stream).delete_before(before, self._history)
            self._expired_to[stream.id] = before

    def _tables(self, stream: RevisionStreamRow) -> RevisionTables:
        return RevisionTables(self._root, table_name(stream), stream.rule)


def restart_archive(connection: sql.Connection, name: str) -> None:
    """Have the revisions of a stream copied again, those that the database has. `name`: its folder."""
    gateway = RowRevisionGateway(connection)
    for stream in gateway.list_streams():
        if table_name(stream) == name:
            gateway.forget_archived(stream.id)


def table_name(stream: RevisionStreamRow) -> str:
    """The folder of a stream: its name, rule and number, as far as folders may have such names."""
    rule = re.sub(r"[^A-Za-z0-9]+", "_", stream.rule).strip("_")
    return f"{rule}.{stream.name}-{stream.id}"
