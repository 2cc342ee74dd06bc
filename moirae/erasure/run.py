"""One erasure, from the choice of its rows to the removal of the last file that has them.

1. The rows are chosen. The database gets keyed hashes of their identities, and, until the end, the
   values and events that go with them. Then they are removed from the files of their streams, while
   all processes run.
2. All processes end; new ones wait. What else there is of rows, values and events is removed: what
   was archived meanwhile, records of the database, tables that follow from streams, accepted batches.
3. Superseded files, earlier commits, copies on local disks, dead pages and logs of the database are
   removed, and the values are forgotten.

Each step may be repeated: an erasure that was killed begins again, without the choice.
"""

import getpass
import shutil
from collections import Counter
from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import structlog

import sql
from archiver.clock import utc_now
from archiver.delta import ErasedRow, ErasedRows, StreamTable
from archiver.errors import ArchiverError
from archiver.storage import as_storage
from archiver.time_range import TimeRange
from archiver.times import optional_micros
from moirae.backup import open_scheduled, store_list
from moirae.config import Settings
from moirae.erasure.archive_rows import FoundRows, SelectedRows
from moirae.erasure.archive_tables import (
    erase_from_tables,
    find_archived_events,
    purge_tables,
    remove_local_copies,
)
from moirae.erasure.choice import ErasureChoice, Report, choose
from moirae.erasure.landed_batches import erase_from_batches
from moirae.erasure.places import find_files, list_places
from moirae.erasure.processes import end_processes, hold_erasure_lock
from moirae.erasure.selection import (
    ConditionSelection,
    ErasedSelection,
    ErasureCondition,
    choose_streams,
)
from moirae.erasure.values import ErasedValues
from moirae.errors import MoiraeError
from moirae.runtime import connect_database
from moirae.runtime.storage import Landings, archived_streams, open_storage
from recall.statements import DuckDBStatements
from sql.access import AuditGateway
from sql.archive import (
    ErasedRecords,
    ErasedRowRow,
    ErasedText,
    ErasureGateway,
    ErasureRow,
    UnitGateway,
)
from sql.workspace import remove_log, rewrite_tables

_LOG = structlog.get_logger()

_OPERATION = "archive.erase"  # in the audit log
_LOCAL_FOLDERS = ("cache", "backup")  # of the home: copies of files of the archive


class Eraser:
    """Erases from one workspace. `connection`: in autocommit mode; the caller holds the lock of backups."""

    def __init__(
        self,
        settings: Settings,
        connection: sql.Connection,
        report: Report = lambda step: None,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._report = report
        self._root = open_storage(settings)
        self._gateway = ErasureGateway(connection)
        self._schemas = {schema.name: schema for schema in archived_streams(settings, connection)}
        self._tables = {
            name: StreamTable(self._root, schema)
            for name, schema in self._schemas.items()
            if StreamTable.exists(self._root, schema.table_name)
        }

    def choose(self, condition: ErasureCondition, streams: list[str]) -> ErasureChoice:
        """What an erasure by a condition would remove. Raises `UsageError`."""
        duckdb = DuckDBStatements()
        schemas = {name: self._schemas[name] for name in self._tables}
        time_range = TimeRange(condition.since, condition.until)
        selections = {
            name: SelectedRows(
                self._tables[name],
                ConditionSelection(condition, self._schemas[name], duckdb),
                time_range,
            )
            for name in choose_streams(schemas, condition, streams)
        }
        return self._choose(selections, condition.constants())

    def _choose(
        self, selections: Mapping[str, SelectedRows], constants: list[str]
    ) -> ErasureChoice:
        return choose(
            self._settings,
            self._connection,
            self._tables,
            selections,
            root=self._root,
            constants=constants,
            report=self._report,
        )

    def start(self, condition: ErasureCondition, choice: ErasureChoice) -> UUID:
        """Record an erasure: from here on it will be finished, whatever happens."""
        erasure = uuid4()
        key = self._gateway.get_key()
        hashed = blake2b(condition.text.encode(), digest_size=16, key=key).digest()
        author = getpass.getuser()
        with self._connection.transaction():
            self._gateway.start(erasure, author, hashed, choice.rows)
            self._record(erasure, choice)
            arguments = {
                "erasure": str(erasure),
                "condition_hash": hashed.hex(),
                "rows": choice.row_count,
            }
            AuditGateway(self._connection).insert(author, "cli", _OPERATION, arguments)
        return erasure

    def _record(self, erasure: UUID, choice: ErasureChoice) -> None:
        """Record what is to be removed, in a transaction."""
        for stream, stream_rows in choice.rows.items():
            self._record_rows(erasure, stream, stream_rows)
        self._gateway.add_values(erasure, choice.values)
        self._gateway.add_events(erasure, choice.events)

    def _record_rows(self, erasure: UUID, stream: str, found_rows: FoundRows) -> None:
        rows = [ErasedRowRow(*row) for row in found_rows.rows]
        added = self._gateway.add_rows(erasure, stream, rows)
        UnitGateway(self._connection).add_erased_rows(added)

    def list_unfinished(self) -> list[ErasureRow]:
        """Erasures that were begun and did not end, oldest first."""
        return [row for row in self._gateway.list_all() if row.finished_at is None]

    def _choose_again(self, row: ErasureRow) -> None:
        """Find the rows of a listed erasure: they are from a backup, as is the rest of the workspace."""
        choice = self._choose(self._select_erased(row), [])
        with self._connection.transaction():
            self._record(row.id, choice)
            self._gateway.put_state(row.id, "erasing", {})

    def finish(self, erasure: UUID) -> ErasureRow:
        """Do all that is left of an erasure. Raises `MoiraeError` and `ArchiverError`."""
        row = self._get(erasure)
        if row.state == "listed":
            self._choose_again(row)
            row = self._get(erasure)
        if row.state == "erasing":
            self._report("removing rows")
            self._erase_rows(row)
        with connect_database(self._settings, "erasure") as lock:
            hold_erasure_lock(lock)
            self._report("waiting for processes to end")
            end_processes(self._connection)
            if row.state == "erasing":
                self._erase_all(row)
            self._purge_database()
        self._gateway.put_state(erasure, "done", {})
        self._store_list()
        return self._get(erasure)

    def _erase_all(self, row: ErasureRow) -> None:
        """Remove what is left anywhere, while no process runs, and forget what it was."""
        self._report("removing what follows from the rows")
        self._erase_rows(row)
        effects = self._erase_others(row)
        self._report("removing superseded files")
        self._purge_files()
        with self._connection.transaction():
            self._gateway.forget(row.id)
            self._gateway.put_state(row.id, "purging", effects)

    def _store_list(self) -> None:
        """Beside the backups, for a restore of one from before; otherwise the next backup stores it."""
        if self._settings.backup is None:
            return
        try:
            store_list(self._connection, open_scheduled(self._settings.backup))
        except (ArchiverError, MoiraeError, OSError) as error:
            _LOG.warning(
                "list of erasures not stored beside the backups",
                action="erasures_not_stored",
                error=str(error),
            )

    def _get(self, erasure: UUID) -> ErasureRow:
        return next(row for row in self._gateway.list_all() if row.id == erasure)

    def _select_erased(self, row: ErasureRow) -> dict[str, SelectedRows]:
        key = self._gateway.get_key()
        time_range = TimeRange(optional_micros(row.first_ts), optional_micros(row.last_ts))
        selections: dict[str, SelectedRows] = {}
        for stream in row.streams:
            if stream in self._tables:
                rows = self._gateway.list_rows(stream, row.id)
                erased = ErasedRows.of(
                    key, [ErasedRow(each.hash, each.unit, each.line, each.hour) for each in rows]
                )
                selection = ErasedSelection(erased, self._schemas[stream])
                selections[stream] = SelectedRows(self._tables[stream], selection, time_range)
        return selections

    def _erase_rows(self, row: ErasureRow) -> None:
        """Remove the rows from the files of their streams, also those that came again meanwhile."""
        key = self._gateway.get_key()
        for stream, selection in self._select_erased(row).items():
            found_rows = selection.find(key)
            with self._connection.transaction():
                self._record_rows(row.id, stream, found_rows)
            selection.erase()

    def _erase_others(self, row: ErasureRow) -> dict[str, Any]:
        """Remove values and events from all that is not a stream; returns the effects."""
        values = ErasedValues(self._gateway.list_values(row.id))
        text = ErasedText(values.patterns, values.mask, values.search, values.search_bytes)
        records = ErasedRecords(self._connection)
        events_with_values = records.find_events(text) | find_archived_events(self._root, values)
        self._gateway.add_events(row.id, events_with_values)
        events = self._gateway.list_events(row.id)
        count = partial(self._gateway.add_changes, row.id)
        count(erase_from_tables(self._root, self._connection, events, values))
        with self._connection.transaction():
            changed = Counter(records.delete_events(events))
            changed["dead_letters"] = records.delete_letters(text)
            changed.update(records.clean(text))
            changed["restarted recalls"] = records.restart_recalls()
            count(changed)
        batches = erase_from_batches(Landings.of(self._settings), values)
        count({"lines of batches": batches.lines})
        remaining_folders = self._remove_copies()
        holders = list_places(
            self._settings,
            self._connection,
            self._gateway.list_units(row.id),
            utc_now(),
        )
        holders += [f"accepted batch {name}, which is archived next" for name in batches.other]
        holders += [f"folder {folder}, which was not removed" for folder in remaining_folders]
        holders += [f"file {path}" for path in find_files(self._settings.home, values)]
        return {"events": len(events), "places": holders}

    def _remove_copies(self) -> list[Path]:
        """Remove what processes keep on local disks and make again; return what could not be."""
        remove_local_copies(self._root)
        folders = [self._settings.home / name for name in _LOCAL_FOLDERS]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        return [folder for folder in folders if folder.exists()]

    def _purge_files(self) -> None:
        for table in self._tables.values():
            table.refresh()
            table.purge()
        purge_tables(self._root)
        as_storage(self._root).remove_unfinished()

    def _purge_database(self) -> None:
        self._report("rewriting the database")
        try:
            rewrite_tables(self._connection)
        except TimeoutError as error:
            raise MoiraeError(
                f"{error}: end it, then run `moirae archive erase --continue`"
            ) from error
        if not self._settings.database:
            remove_log(self._connection)
