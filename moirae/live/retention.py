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
from archiver.chunk import Chunk
from archiver.folding import LEAST, Folding
from archiver.ingest import Archive
from archiver.lifecycle import left
from archiver.times import from_micros
from moirae.live.outbox import Outbox
from moirae.live.stream import base
from moirae.settings import Settings
from moirae.streams import FileSource
from recall.ledger import twice

_QUERIES = sql.load("retention")

# By the clock: what was written so lately stays, whatever its event time; versions of rules may come back for so long,
# and commands are asked once under their keys.
_DAY, _OLD = timedelta(days=1), timedelta(days=7)
# Rows of each kind in one step.
_ROWS = 1_000
# Kinds of rows in the order in which they go, each when the ones before are gone: an alert without them would get them
# again.
_ABOUT_EVENTS = ("forget_alerts", "forget_tasks", "forget_contexts", "forget_events")


class Retention:
    """On the live process's connection. `outboxes` tell what is archived, `waiting` which batches of a stream have
    landed. `least` and `fold_after`: for so long by the clock no row goes, and no source unit."""

    def __init__(
        self,
        connection: Connection[Any],
        settings: Settings,
        outboxes: Mapping[str, Outbox],
        waiting: Callable[[str], Collection[str]],
        least: timedelta = _DAY,
        fold_after: timedelta = LEAST,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._outboxes = outboxes
        self._waiting = waiting
        self._least = least
        self._folding = Folding(connection, fold_after)

    def step(self, archive: Archive) -> bool:
        """Forget a little. Returns whether there is more at once."""
        archive.fence()
        kept = archive.catalog.kept()
        gone = left(kept)
        more = [self._fold(archive.chunks), self._dated()]
        if gone is not None and gone.to_ts is not None:
            more.append(self._about(gone.to_ts))
        if not any(more):  # each looks at whole tables
            self._versions(gone)
        if gone is not None:
            (derived,) = self._connection.execute(_QUERIES["oldest_derived"]).fetchone() or (None,)
            oldest = gone.id if derived is None else min(gone.id, derived)
            if oldest > kept[0].chunk.id:
                archive.forget_chunks(self._folding, oldest)
        return any(more)

    def _fold(self, chunks: Sequence[Chunk]) -> bool:
        """Source units of closed chunks that will not be read again become one row of their stream."""
        sealed = next((chunk.from_ts for chunk in chunks if chunk.state == "present"), None)
        if sealed is None:
            return False
        more = [self._folding.fold(name, sealed, self._gone(name), _ROWS) for name in self._settings.streams]
        return any(more)

    def _gone(self, stream: str) -> Callable[[str], bool]:
        """Whether nothing is left of a source unit that could be read again. A folder without any file is taken to be
        away for a while, with what was in it."""
        waiting, source = self._waiting(stream), self._settings.streams[stream].source
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
                folder = base(str(root / source.files))
                away.append(not folder.is_dir() or next(os.scandir(folder), None) is None)
            return not away[0] and not path.exists()

        return gone

    def _dated(self) -> bool:
        """Dead letters and commands, which are of no event time, expire by the clock."""
        keep = self._settings.chunks.keep
        if keep is None:
            return False
        letters = self._folding.drop_letters(max(keep, self._least), _ROWS)
        return letters or self._delete("forget_commands", {"keep": max(keep, _OLD)})

    def _about(self, before: int) -> bool:
        """What is about events before a time (microseconds)."""
        archived = {name: outbox.last for name, outbox in self._outboxes.items()}
        times = {"before": from_micros(before), "before_micros": before}
        more = [self._delete(name, {**times, **archived, "least": self._least}) for name in _ABOUT_EVENTS]
        return any(more)

    def _versions(self, gone: Chunk | None) -> None:
        """What versions of rules and relations left behind. `gone`: the newest chunk that has left."""
        for name in ("forget_views", "forget_calibrations", "forget_deployments"):
            self._connection.execute(_QUERIES[name], {"chunk": -1 if gone is None else gone.id, "old": _OLD})
        if gone is not None and gone.to_ts is not None:
            self._delete("forget_relations", {"before": from_micros(gone.to_ts)})

    def _delete(self, name: str, values: Mapping[str, Any]) -> bool:
        # Recall processes may want the same tasks again just now.
        return twice(lambda: self._connection.execute(_QUERIES[name], {**values, "limit": _ROWS})).rowcount == _ROWS
