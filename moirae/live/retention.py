"""What the database need not know any more: what happened in chunks that have left, and how the rest came to be known.

History expires by `chunks.keep`; nobody's words do: an alert with notes, or with a hit that somebody judged, stays with
its event, context and answers. What goes is in the archive: settled events, and the corpora that counts rest on. All of
this may break off anywhere and is done again; a little at a time, since the live process waits for it.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

import sql
from archiver.chunks import Chunk, last_deleted_chunk
from archiver.ingest import MIN_UNIT_AGE, ArchiveWriter, LedgerCompaction
from archiver.times import from_micros
from moirae.config import FileSource, Settings
from moirae.live.outbox import Outbox
from moirae.live.streaming_queries import glob_base
from recall.ledger import retry_on_deadlock

_QUERIES = sql.load("retention")

# By the clock: what was written so lately stays, whatever its event time; versions of rules may come back for so long,
# and commands are asked once under their keys.
_MIN_ROW_AGE, _MIN_VERSION_AGE = timedelta(days=1), timedelta(days=7)
# Rows of each kind in one step.
_BATCH_ROWS = 1_000
# Kinds of rows in the order in which they go, each when the ones before are gone: an alert without them would get them
# again.
_EVENT_QUERY_NAMES = ("forget_alerts", "forget_tasks", "forget_contexts", "forget_events")


class Retention:
    """On the live process's connection. `outboxes` tell what is archived, `waiting` which batches of a stream have
    landed. `least` and `fold_after`: for so long by the clock no row goes, and no source unit."""

    def __init__(
        self,
        connection: Connection[Any],
        settings: Settings,
        outboxes: Mapping[str, Outbox],
        pending_batches: Callable[[str], Collection[str]],
        min_age: timedelta = _MIN_ROW_AGE,
        compact_after: timedelta = MIN_UNIT_AGE,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._outboxes = outboxes
        self._pending_batches = pending_batches
        self._min_age = min_age
        self._compaction = LedgerCompaction(connection, compact_after)

    def run_once(self, archive: ArchiveWriter) -> bool:
        """Forget a little. Returns whether there is more at once."""
        archive.fence()
        kept = archive.catalog.chunk_records()
        gone = last_deleted_chunk(kept)
        more = [self._compact_units(archive.chunks), self._delete_by_age()]
        if gone is not None and gone.to_ts is not None:
            more.append(self._delete_event_rows(gone.to_ts))
        if not any(more):  # each looks at whole tables
            self._delete_version_rows(gone)
        if gone is not None:
            (derived,) = self._connection.execute(_QUERIES["oldest_derived"]).fetchone() or (None,)
            oldest = gone.id if derived is None else min(gone.id, derived)
            if oldest > kept[0].chunk.id:
                archive.delete_chunks_before(self._compaction, oldest)
        return any(more)

    def _compact_units(self, chunks: Sequence[Chunk]) -> bool:
        """Source units of closed chunks that will not be read again become one row of their stream."""
        sealed = next((chunk.from_ts for chunk in chunks if chunk.state == "present"), None)
        if sealed is None:
            return False
        more = [
            self._compaction.compact(name, sealed, self._make_gone_test(name), _BATCH_ROWS)
            for name in self._settings.streams
        ]
        return any(more)

    def _make_gone_test(self, stream: str) -> Callable[[str], bool]:
        """Whether nothing is left of a source unit that could be read again. A folder without any file is taken to be
        away for a while, with what was in it."""
        waiting, source = self._pending_batches(stream), self._settings.streams[stream].source
        root = self._settings.file.parent
        away: list[bool] = []

        def gone(name: str) -> bool:
            if name in waiting:
                return False
            path = root / name
            # What is posted or handed over lands under a name without a folder.
            if not isinstance(source, FileSource) or (path.parent == root and not path.exists()):
                return True
            if not away:
                folder = glob_base(str(root / source.files))
                away.append(not folder.is_dir() or next(os.scandir(folder), None) is None)
            return not away[0] and not path.exists()

        return gone

    def _delete_by_age(self) -> bool:
        """Dead letters and commands, which are of no event time, expire by the clock."""
        keep = self._settings.chunks.keep
        if keep is None:
            return False
        letters = self._compaction.drop_dead_letters(max(keep, self._min_age), _BATCH_ROWS)
        return letters or self._delete_rows(
            "forget_commands", {"keep": max(keep, _MIN_VERSION_AGE)}
        )

    def _delete_event_rows(self, before: int) -> bool:
        """What is about events before a time (microseconds)."""
        archived = {name: outbox.last_sequence for name, outbox in self._outboxes.items()}
        times = {"before": from_micros(before), "before_micros": before}
        more = [
            self._delete_rows(name, {**times, **archived, "least": self._min_age})
            for name in _EVENT_QUERY_NAMES
        ]
        return any(more)

    def _delete_version_rows(self, gone: Chunk | None) -> None:
        """What versions of rules and relations left behind. `gone`: the newest chunk that has left."""
        for name in ("forget_views", "forget_calibrations", "forget_deployments"):
            self._connection.execute(
                _QUERIES[name], {"chunk": -1 if gone is None else gone.id, "old": _MIN_VERSION_AGE}
            )
        if gone is not None and gone.to_ts is not None:
            self._delete_rows("forget_relations", {"before": from_micros(gone.to_ts)})

    def _delete_rows(self, name: str, values: Mapping[str, Any]) -> bool:
        # Recall processes may want the same tasks again just now.
        return (
            retry_on_deadlock(
                lambda: self._connection.execute(_QUERIES[name], {**values, "limit": _BATCH_ROWS})
            ).rowcount
            == _BATCH_ROWS
        )
