"""Trims what ended recalls leave in the database, some time after their end.

Of a task stay its last answer and a short description of what it has read; of the row revisions of
a recall those of events without a boundary: the archive has the others. Until then clients find
each revision in the database.
"""

from collections.abc import Mapping
from datetime import timedelta

import sql
from archiver.ingest import Catalog
from archiver.time_range import TimeRange
from recall.ledger.piece_lists import shorten_pieces
from recall.requests import Piece
from sql.recalls import TrimmingGateway

# After the end of a task or an event.
TRIM_AGE = timedelta(minutes=10)
_BATCH_TASKS = 500  # in one transaction
_BATCH_EVENTS = 500


class RecallTrimmer:
    """Trims over one connection. What is trimmed once stays so: it may be repeated or interrupted."""

    def __init__(self, connection: sql.Connection, age: timedelta = TRIM_AGE) -> None:
        self._connection = connection
        self._gateway = TrimmingGateway(connection)
        self._age = age

    def trim_tasks(self) -> None:
        """Trim all tasks that have ended for good."""
        chunks = closed_chunks(self._connection)
        while self._trim_batch(chunks):
            pass

    def _trim_batch(self, chunks: Mapping[int, TimeRange]) -> bool:
        with self._connection.transaction():
            tasks = self._gateway.list_ended(self._age, _BATCH_TASKS)
            if not tasks:
                return False
            shortened = []
            for task in tasks:
                pieces = [Piece.from_json(piece) for piece in task.pieces or ()]
                shortened.append((task.id, shorten_pieces(pieces, chunks), len(pieces)))
            self._gateway.put_pieces(shortened)
            self._gateway.delete_superseded([task.id for task in tasks])
        return len(tasks) == _BATCH_TASKS

    def trim_stream(self, stream: int) -> None:
        """Delete the archived row revisions of a recall about events with a boundary.

        `stream`: its ID. No other process may archive meanwhile.
        """
        while self._gateway.delete_archived_rows(stream, self._age, _BATCH_EVENTS):
            pass


def closed_chunks(connection: sql.Connection) -> dict[int, TimeRange]:
    """The ranges of chunks that have an end, by their numbers."""
    ranges = {}
    for chunk in Catalog(connection).chunks():
        if chunk.to_ts is not None:
            ranges[chunk.id] = chunk.time_range
    return ranges
