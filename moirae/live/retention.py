"""Retention: deletes what the database no longer needs.

Rows about deleted chunks expire by `chunks.keep`. User input does not: an alert with notes, or with
a judged hit, remains with its event, context and answers. With `alerts.keep`, all alerts expire by
that. Only archived rows are deleted (settled
events, and the corpora that event counts are computed from). Every step may be interrupted and is
then repeated; steps are small, since the live process waits for them.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path

import sql
from archiver.chunks import Chunk, last_deleted_chunk
from archiver.file_names import unescape_name
from archiver.globs import parse_glob
from archiver.ingest import MIN_UNIT_AGE, ArchiveWriter, LedgerCompaction
from archiver.times import Micros, duration_to_micros, from_micros
from moirae.config import FileSource, Settings
from moirae.live.outbox import Outbox
from recall.ledger import retry_on_deadlock
from sql.archive import RetentionGateway, StreamGateway

# Wall-clock time since a row was written, whatever its event time.
_MIN_ROW_AGE = timedelta(days=1)
# Wall-clock time for which a stopped version of a rule can be resumed, and for which a command with
# an idempotency key is executed once.
_MIN_VERSION_AGE = timedelta(days=7)
# Wall-clock time for which live clients can resume, and for which the audit log is kept.
_CHANGES_AGE = timedelta(days=1)
_AUDIT_AGE = timedelta(days=400)
_BATCH_ROWS = 1_000  # rows of each kind in one step


class Retention:
    """Deletes expired rows in small steps, on the connection of the live process.

    `outboxes`: tell which rows are archived. `pending_batches`: the names of a stream's batches in
    the landing folder. `min_age` and `compact_after`: wall-clock time for which rows and source
    units are retained at least.
    """

    def __init__(
        self,
        connection: sql.Connection,
        settings: Settings,
        outboxes: Mapping[str, Outbox],
        pending_batches: Callable[[str], Collection[str]],
        min_age: timedelta = _MIN_ROW_AGE,
        compact_after: timedelta = MIN_UNIT_AGE,
    ) -> None:
        self._gateway = RetentionGateway(connection)
        self._streams = StreamGateway(connection)
        self._settings = settings
        self._keep_alerts = settings.alerts.keep
        self._outboxes = outboxes
        self._pending_batches = pending_batches
        self._min_age = min_age
        self._compaction = LedgerCompaction(connection, compact_after)

    def keep_alerts(self, keep: timedelta | None) -> None:
        """Let alerts expire by the key `alerts.keep` of a changed workspace file."""
        self._keep_alerts = keep

    def run_once(self, archive: ArchiveWriter) -> bool:
        """Delete one batch of each kind of row. Returns whether there are more at once."""
        archive.fence()
        records = archive.catalog.chunk_records()
        deleted_chunk = last_deleted_chunk(records)
        has_more = [self._compact_units(archive.chunks), self._delete_by_age()]
        has_more.append(self._delete_old_alerts(archive))
        if deleted_chunk is not None and deleted_chunk.to_ts is not None:
            has_more.append(self._delete_event_rows(deleted_chunk.to_ts))
        if not any(has_more):  # these statements scan whole tables
            self._delete_version_rows(deleted_chunk)
        if deleted_chunk is not None:
            oldest = deleted_chunk.id
            oldest_derived = self._gateway.oldest_derived_chunk()
            if oldest_derived is not None:
                oldest = min(oldest, oldest_derived)
            if oldest > records[0].chunk.id:
                archive.delete_chunks_before(self._compaction, oldest)
        return any(has_more)

    def _compact_units(self, chunks: Sequence[Chunk]) -> bool:
        """Merge source units of closed chunks into one row, unless they may be read again."""
        present_chunks = filter(lambda chunk: chunk.state == "present", chunks)
        present_chunk = next(present_chunks, None)
        if present_chunk is None or present_chunk.from_ts is None:
            return False
        has_more = False
        for stream in self._streams.list_all():  # also those that are declared no longer
            is_gone = self._make_gone_test(stream.name)
            if self._compaction.compact(stream.name, present_chunk.from_ts, is_gone, _BATCH_ROWS):
                has_more = True
        return has_more

    def _make_gone_test(self, stream: str) -> Callable[[str], bool]:
        """A test whether the data of a source unit is gone, so that it cannot be read again.

        An empty or missing folder may be unmounted for a while: its files do not count as gone.
        """
        if stream not in self._settings.streams:
            return self._make_gone_test_of_files([])
        pending_batches = self._pending_batches(stream)
        source = self._settings.streams[stream].source
        root = self._settings.file.parent
        folders: list[str] = []
        if isinstance(source, FileSource) and not source.is_in_object_storage:
            folders = [path_glob.folder for path_glob in parse_glob(source.files)]
        is_file_gone = self._make_gone_test_of_files(folders)

        def is_gone(name: str) -> bool:
            if name in pending_batches:
                return False
            if isinstance(source, FileSource) and source.is_in_object_storage:
                # It costs a request to ask. A ledger row is kept for each object.
                return not name.startswith("s3://")
            path = root / unescape_name(name)
            # Batches of the landing folder have a name without a folder.
            if not isinstance(source, FileSource) or (path.parent == root and not path.exists()):
                return True
            return is_file_gone(name)

        return is_gone

    def _make_gone_test_of_files(self, folders: Sequence[str]) -> Callable[[str], bool]:
        """The test for files. `folders`: that are listed for them; others are in their own."""
        root = self._settings.file.parent

        @cache
        def is_folder_missing(folder: Path) -> bool:
            return not folder.is_dir() or next(os.scandir(folder), None) is None

        def is_gone(name: str) -> bool:
            path = root / unescape_name(name)
            if path.parent == root and not folders:
                return False  # a batch that was posted to a stream, which may be declared again
            folder = next(filter(path.is_relative_to, folders), path.parent)
            return not is_folder_missing(Path(folder)) and not path.exists()

        return is_gone

    def _delete_by_age(self) -> bool:
        """Delete rows that have no event time by wall-clock time."""
        gateway = self._gateway
        has_changes = _delete_batch(lambda: gateway.delete_changes(_CHANGES_AGE, _BATCH_ROWS))
        if has_changes or _delete_batch(lambda: gateway.delete_audit(_AUDIT_AGE, _BATCH_ROWS)):
            return True
        keep = self._settings.chunks.keep
        if keep is None:
            return False
        if self._compaction.drop_dead_letters(max(keep, self._min_age), _BATCH_ROWS):
            return True
        self._gateway.delete_learned_models(max(keep, self._min_age), _MIN_VERSION_AGE)
        min_age = max(keep, _MIN_VERSION_AGE)
        return _delete_batch(lambda: gateway.delete_commands(min_age, _BATCH_ROWS))

    def _delete_old_alerts(self, archive: ArchiveWriter) -> bool:
        """Delete alerts by their own retention; return whether there are more."""
        keep = self._keep_alerts
        watermarks = filter(None, map(archive.watermark, archive.progress))
        newest = max(watermarks, default=None)
        if keep is None or newest is None:
            return False
        before = from_micros(max(newest - duration_to_micros(keep), 0))
        return _delete_batch(
            lambda: self._gateway.delete_old_alerts(before, self._min_age, _BATCH_ROWS)
        )

    def _delete_event_rows(self, before: Micros) -> bool:
        """Delete rows about events before a time; return whether there are more."""
        gateway = self._gateway
        time = from_micros(before)
        min_age = self._min_age
        limit = _BATCH_ROWS
        last_context = self._outboxes["contexts"].last_sequence
        last_event = self._outboxes["events"].last_sequence
        # Alerts go first: without its tasks or context, an alert would get them anew.
        deletions: list[Callable[[], int]] = []
        if self._keep_alerts is None:
            deletions.append(lambda: gateway.delete_alerts(time, min_age, limit))
        deletions += [
            lambda: gateway.delete_tasks(before, min_age, limit),
            lambda: gateway.delete_recalled_events(time, min_age, limit),
            lambda: gateway.delete_contexts(
                time, archived_to=last_context, min_age=min_age, limit=limit
            ),
            lambda: gateway.delete_events(
                time, archived_to=last_event, min_age=min_age, limit=limit
            ),
        ]
        has_more = list(map(_delete_batch, deletions))
        return any(has_more)

    def _delete_version_rows(self, deleted_chunk: Chunk | None) -> None:
        """Delete rows of replaced versions of rules and relations.

        `deleted_chunk`: the newest deleted chunk; None: no chunk has been deleted.
        """
        chunk_id = -1 if deleted_chunk is None else deleted_chunk.id
        self._gateway.delete_views(chunk_id, _MIN_VERSION_AGE)
        self._gateway.delete_calibrations(_MIN_VERSION_AGE)
        self._gateway.delete_deployments(_MIN_VERSION_AGE)
        self._gateway.delete_incidents(self._min_age)
        if deleted_chunk is not None and deleted_chunk.to_ts is not None:
            before = from_micros(deleted_chunk.to_ts)
            _delete_batch(lambda: self._gateway.delete_relation_versions(before, _BATCH_ROWS))


def _delete_batch(delete: Callable[[], int]) -> bool:
    """Delete one batch of rows; return whether it was full."""
    # Recall workers may lock the same tasks in another order.
    return retry_on_deadlock(delete) == _BATCH_ROWS
