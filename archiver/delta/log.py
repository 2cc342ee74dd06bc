"""The Delta log of one table partitioned by chunk, read and extended commit by commit.

The deltalake library reads the whole state of a table for each append, so that appends get slower
with every file. Here each commit only updates the known state, whatever the number of files.
A commit is written under the next version number; this fails if another process wrote that one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from archiver.clock import seconds_since_boot, unix_now
from archiver.delta.files import (
    CLUSTERED_PREFIX,
    UNCLUSTERED_PREFIX,
    ChunkFiles,
    DataFile,
    RemovedFile,
    is_adopted,
    is_written_by_moirae,
    upper_bound,
)
from archiver.delta.generation import read_generation
from archiver.delta.protocol import (
    FIRST_GENERATION,
    NO_CHUNK,
    CommitSummary,
    FoundFile,
    ParsedCommit,
    TableMetadata,
    add_action,
    commit_info_action,
    create_actions,
    encode_actions,
    parse_commit,
    remove_action,
)
from archiver.errors import (
    CommitConflict,
    GenerationReplaced,
    IncompatibleTable,
    LogDamaged,
    StorageFailed,
)
from archiver.storage import LOG_FOLDER, Storage
from archiver.times import to_micros

__all__ = [
    "CLUSTERED_PREFIX",
    "UNCLUSTERED_PREFIX",
    "ChunkFiles",
    "DataFile",
    "DeltaLog",
    "open_or_create_delta_table",
]

# Commits between two checkpoints: often enough to open tables fast, rare enough to cost little.
_CHECKPOINT_INTERVAL = 200
# Seconds between two listings of a table for files that were never committed.
_LISTING_INTERVAL = 6 * 3600.0
# Commits, from the newest on, in which files of other programs are looked up when a table is
# opened. Maintenance rewrites such files within a minute.
_MAX_SEARCHED_COMMITS = 1_000
_VERSION_DIGITS = 20  # with which the names of the files of a log begin

# Returns the actions of a commit for its timestamp in milliseconds.
_BuildActions = Callable[[int], Sequence[Mapping[str, Any]]]


def open_or_create_delta_table(
    storage: Storage, schema: pa.Schema, properties: Mapping[str, str] | None = None
) -> DeltaTable:
    """Open the table of a folder; create it, partitioned by chunk, if it is absent.

    `properties`: of a new table, besides those of every table.
    """
    try:
        return storage.open_table()
    except TableNotFoundError:
        storage.create_log_folder()
    timestamp = _now()
    info = commit_info_action(CommitSummary("CREATE TABLE"), timestamp)
    content = encode_actions([info, *create_actions(schema, timestamp, properties)])
    with storage.prepare_commit(content) as commit:
        commit(_commit_file(0))  # fails if another process has created the table
    return storage.open_table()


class DeltaLog:
    """The files of the newest known version of a table. `time_column` names its event time.

    With an `application_id` commits record up to which number the table holds rows, as a Delta
    transaction identifier; `sequence_number` is the last one, 0 for none.

    Raises `IncompatibleTable` when another program has changed the table such that it cannot be
    read any more.
    """

    def __init__(
        self,
        storage: Storage,
        time_column: str,
        table: DeltaTable,
        application_id: str | None = None,
    ) -> None:
        self._storage = storage
        self._time_column = time_column
        self._application_id = application_id
        self._removed: dict[str, RemovedFile] | None = None  # None: not loaded
        self._generation: int | None = None  # None: not known yet
        # Files that no version has, as far as known, and when to look for more of them.
        self._uncommitted: Sequence[str] = ()
        self._list_again_at = 0.0
        self._load(table)

    def _load(self, table: DeltaTable) -> None:
        """Replace the known state by the table's current one."""
        self.version = int(table.version())
        self._metadata = TableMetadata.of(table)
        self._check_compatible(self._metadata.find_incompatibility(), self.version)
        self._check_generation(read_generation(self._metadata.properties))
        self.sequence_number = 0
        if self._application_id is not None:
            self.sequence_number = table.transaction_version(self._application_id) or 0
        self._last_timestamp = 0
        with suppress(FileNotFoundError):
            self._last_timestamp = self._read_commit(self.version).timestamp or 0
        self._removed = None
        # Chunks of files that other programs wrote, by path.
        self._other_chunks: dict[str, int] = {}
        self.files_by_chunk: dict[int, ChunkFiles] = {}
        for file in self._files_of(table):
            self._add_file(file)

    def _check_compatible(self, reason: str | None, version: int, author: str = "") -> None:
        if reason is None:
            return
        commit = f"version {version}" + (f" ({author})" if author else "")
        raise IncompatibleTable(
            f"{self._storage}: {commit} {reason}, which Moirae does not support: restore an earlier "
            f"version (RESTORE TABLE delta.`…` TO VERSION AS OF …) and start Moirae again"
        )

    def _check_generation(self, generation: int | None) -> None:
        """Raise `GenerationReplaced` unless it is that of the table when it was opened."""
        if self._generation is None:
            self._generation = generation
        if generation not in (None, self._generation):
            raise GenerationReplaced(
                f"{self._storage}: the table was restored from a backup since this process opened "
                f"it: it is of generation {generation}, not {self._generation} any more: stop this "
                "process; `moirae up` of the restored workspace goes on"
            )

    def _files_of(self, table: DeltaTable) -> Iterator[DataFile]:
        actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
        if not len(actions):
            return  # then the statistics columns are missing
        names = (
            "path",
            "partition.chunk",
            "size_bytes",
            "num_records",
            f"min.{self._time_column}",
            f"max.{self._time_column}",
        )
        columns: list[list[Any]] = []
        for name in names:
            is_present = name in actions.column_names
            columns.append(actions[name].to_pylist() if is_present else [None] * len(actions))
        unknown_paths = set()
        for path in columns[0]:
            if not is_written_by_moirae(path) and not is_adopted(path):
                unknown_paths.add(path)
        foreign_paths = self._find_foreign(unknown_paths)
        for path, chunk, size, rows, oldest, newest in zip(*columns, strict=True):
            bounds = None
            if rows is not None and oldest is not None and newest is not None:
                bounds = rows, to_micros(oldest), upper_bound(path, to_micros(newest))
            is_foreign = path in foreign_paths or is_adopted(path)
            chunk = NO_CHUNK if chunk is None else chunk
            yield self._complete(FoundFile(path, chunk, size, bounds), is_foreign)

    def _find_foreign(self, paths: Collection[str]) -> set[str]:
        """Of files of other programs, those with rows that others appended, by latest commits."""
        unknown_paths = set(paths)
        found_files: list[FoundFile] = []  # newest first
        oldest = max(self.version - _MAX_SEARCHED_COMMITS, 0)
        for version in range(self.version, oldest - 1, -1):
            if not unknown_paths:
                break
            try:
                commit = self._read_commit(version)
            except FileNotFoundError:
                break
            for file in commit.added:
                if file.path in unknown_paths:
                    unknown_paths.remove(file.path)
                    found_files.append(file)
                    for path in file.replaced_paths:
                        if not is_written_by_moirae(path) and not is_adopted(path):
                            unknown_paths.add(path)
        foreign_paths: set[str] = set()
        for file in reversed(found_files):
            if file.is_foreign(lambda path: path in foreign_paths or is_adopted(path)):
                foreign_paths.add(file.path)
        return foreign_paths

    def _complete(self, file: FoundFile, is_foreign: bool) -> DataFile:
        return replace(self._with_bounds(file), is_foreign=is_foreign)

    def _with_bounds(self, file: FoundFile) -> DataFile:
        """Read the bounds of a file from it if its commit has no statistics."""
        if file.bounds is not None:
            return file.with_bounds(*file.bounds)
        try:
            parquet = pq.ParquetFile(self._storage.open_data_file(file.path))
            times = parquet.read(columns=[self._time_column]).drop_null()
            has_times = bool(times.num_columns and len(times))
        except (OSError, pa.ArrowException):
            # Removed since, by a later commit; `moirae doctor` lists files that are missing.
            return file.with_bounds(0, 0, 0)
        rows = parquet.metadata.num_rows
        if not has_times:
            return file.with_bounds(rows, 0, 0)  # without any time, in no range
        limits = pc.min_max(times[self._time_column].cast(pa.timestamp("us", tz="UTC")))
        oldest, newest = (to_micros(limits[name].as_py()) for name in ("min", "max"))
        return file.with_bounds(rows, oldest, newest)

    def _add_file(self, file: DataFile) -> None:
        if not is_written_by_moirae(file.path):
            self._other_chunks[file.path] = file.chunk
        self.files_by_chunk.setdefault(file.chunk, ChunkFiles()).add(file)

    def _remove_file(self, path: str) -> None:
        chunk = self._chunk_of(path)
        chunk_files = self.files_by_chunk.get(chunk)
        if chunk_files is not None:
            chunk_files.remove(path)
            if not chunk_files.files_by_path:
                del self.files_by_chunk[chunk]
        self._other_chunks.pop(path, None)

    def _chunk_of(self, path: str) -> int:
        if is_written_by_moirae(path):
            return int(path.split("/", 1)[0].removeprefix("chunk="))
        return self._other_chunks.get(path, NO_CHUNK)

    def contains(self, path: str) -> bool:
        """Whether a file belongs to the newest known version."""
        chunk_files = self.files_by_chunk.get(self._chunk_of(path))
        return chunk_files is not None and path in chunk_files.files_by_path

    def is_foreign(self, path: str) -> bool:
        """Whether another program appended the rows of a file of the newest known version."""
        if path not in self._other_chunks:
            return False
        chunk_files = self.files_by_chunk[self._other_chunks[path]]
        return chunk_files.files_by_path[path].is_foreign

    def added_since(self, number: int) -> list[str]:
        """The files of the known version that commits have added since sequence number `number`.

        Raises `FileNotFoundError` if not all of these commits are in the log any more.
        """
        paths: list[str] = []
        for version in range(self.version, -1, -1):
            commit = self._read_commit(version)
            if commit.sequence_number is not None and commit.sequence_number <= number:
                break
            paths += [file.path for file in commit.added if self.contains(file.path)]
        return paths

    def unreferenced_files(self, history: float = 0.0) -> list[str]:
        """List files that are no part of a version of the last `history` seconds.

        These are files replaced before, which the log names, and files never committed. The folder
        is listed for the latter, seldom: they are left by processes that were killed.
        """
        if seconds_since_boot() >= self._list_again_at:
            # Listed before the log is read: a file committed in between belongs to the table.
            names = self._storage.list_files()
            self.refresh()
            self._removed = _restrict(self.removed_files(), names)
            self._uncommitted = names
            self._list_again_at = seconds_since_boot() + _LISTING_INTERVAL
        else:
            self.refresh()
        removed = self.removed_files()
        self._uncommitted = [
            name for name in self._uncommitted if name not in removed and not self.contains(name)
        ]
        readable_since = _now() - history * 1000
        expired: list[str] = []
        for path, file in removed.items():  # in the order of their removal
            if file.removed_at > readable_since:
                break
            expired.append(path)
        return [*self._uncommitted, *expired]

    def forget_files(self, paths: Collection[str]) -> None:
        """Forget unreferenced files, which were deleted."""
        deleted = set(paths)
        self._uncommitted = [name for name in self._uncommitted if name not in deleted]
        if self._removed is not None:
            for path in deleted:
                self._removed.pop(path, None)

    def removed_files(self) -> Mapping[str, RemovedFile]:
        """Superseded files by path, as far as the log names them. They may be deleted already."""
        if self._removed is None:
            self._removed = self._load_removed()
        return self._removed

    def history_bytes(self, history: float) -> int:
        """The size of the files that only versions of the last `history` seconds need."""
        readable_since = _now() - history * 1000
        files = self.removed_files().values()
        return sum(file.bytes for file in files if file.removed_at > readable_since)

    def _load_removed(self) -> dict[str, RemovedFile]:
        """The removed files that the last checkpoint and the commits after it name."""
        removed: dict[str, RemovedFile] = {}
        checkpoint = self._last_checkpoint()
        if checkpoint:
            name = f"{LOG_FOLDER}/{checkpoint:020d}.checkpoint.parquet"
            with suppress(FileNotFoundError):  # one of another program, in several parts
                content = pa.BufferReader(self._storage.read_log_file(name))
                rows = pq.read_table(content, columns=["remove"])
                for remove in rows["remove"].drop_null().to_pylist():
                    removed[remove["path"]] = RemovedFile(
                        remove["deletionTimestamp"] or 0, remove["size"] or 0
                    )
        for version in range(checkpoint, self.version + 1):
            with suppress(FileNotFoundError):
                removed.update(self._read_commit(version).removed)
        superseded = [(path, file) for path, file in removed.items() if not self.contains(path)]
        return dict(sorted(superseded, key=lambda item: item[1].removed_at))

    def refresh(self) -> None:
        """Apply the commits since the known version. Raises `LogDamaged` for an invalid commit."""
        while True:
            try:
                commit = self._read_commit(self.version + 1)
            except FileNotFoundError:
                if not self._storage.exists(_commit_file(self.version)):
                    # The known version is so old that later commits may have been cleaned up.
                    self._load(self._storage.open_table())
                return
            self._apply_commit(commit)

    def _read_commit(self, version: int) -> ParsedCommit:
        """Read a commit. Raises `FileNotFoundError` and `LogDamaged`."""
        name = _commit_file(version)
        content = self._storage.read_log_file(name)
        try:
            return parse_commit(content, self._time_column, self._application_id)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LogDamaged(f"{self._storage}/{name}: corrupt commit: {error}") from error

    def _apply_commit(self, commit: ParsedCommit) -> None:
        version = self.version + 1
        self._check_generation(commit.generation)
        if commit.has_deletion_vectors:
            self._check_compatible("adds deletion vectors", version, commit.author)
        if commit.metadata is not None or commit.protocol is not None:
            metadata = self._metadata.updated(commit.protocol, commit.metadata)
            reason = metadata.find_incompatibility(self._metadata)
            self._check_compatible(reason, version, commit.author)
            self._metadata = metadata
        added = [self._complete(file, file.is_foreign(self.is_foreign)) for file in commit.added]
        for path in commit.removed:
            self._remove_file(path)
        for data_file in added:
            self._add_file(data_file)
        if self._removed is not None:
            self._removed.update(commit.removed)
            for file in commit.added:
                self._removed.pop(file.path, None)
        if commit.sequence_number is not None:
            self.sequence_number = commit.sequence_number
        if commit.timestamp is not None:
            self._last_timestamp = max(commit.timestamp, self._last_timestamp)
        self.version = version

    def commit(
        self,
        operation: str,
        *,
        add: Sequence[DataFile] = (),
        remove: Sequence[DataFile] = (),
        user_metadata: Mapping[str, Any] | None = None,
        replaced_chunk: int | None = None,
        sequence_range: tuple[int, int] | None = None,
        started_at: float | None = None,
    ) -> None:
        """Add files to the table and remove others in one commit.

        `user_metadata`: values for the history of the table. `replaced_chunk`: a chunk of which
        the removed files must be all. `sequence_range`: the table's sequence number must be the
        first and becomes the second. `started_at`: seconds of `archiver.clock` at which the first
        of the added files was started.

        Raises `CommitConflict` when a removed file is gone already, the replaced chunk has other
        files, or the sequence number differs. Raises `StorageFailed` when so much time has passed
        since `started_at` that a vacuum may have removed the added files. A commit that adds and
        removes files, other than of a replaced chunk, only rewrites rows: it is marked as no change
        of data, unless it deletes rows.
        """
        data_change = operation == "DELETE" or replaced_chunk is not None or not (add and remove)
        summary = CommitSummary(operation, _parameters(operation, add, remove), user_metadata)

        def check() -> None:
            self._check_conflicts(remove, replaced_chunk)
            if sequence_range is not None and sequence_range[0] != self.sequence_number:
                raise CommitConflict
            if started_at is not None:
                self._check_duration(seconds_since_boot() - started_at)

        def build(timestamp: int) -> list[Mapping[str, Any]]:
            actions: list[Mapping[str, Any]] = []
            for file in remove:
                actions.append(remove_action(file, timestamp, data_change))
            for file in add:
                actions.append(add_action(file, self._time_column, timestamp, data_change))
            if sequence_range is not None:
                transaction = {
                    "appId": self._application_id,
                    "version": sequence_range[1],
                    "lastUpdated": timestamp,
                }
                actions.append({"txn": transaction})
            return [self._commit_info(summary, timestamp, add, remove), *actions]

        self._write_commit(build, check)

    def _commit_info(
        self,
        summary: CommitSummary,
        timestamp: int,
        add: Sequence[DataFile] = (),
        remove: Sequence[DataFile] = (),
    ) -> dict[str, Any]:
        return commit_info_action(
            summary,
            timestamp,
            add=add,
            remove=remove,
            in_commit_timestamp=self._metadata.has_in_commit_timestamps,
            generation=self._generation or FIRST_GENERATION,
        )

    def _write_commit(self, build: _BuildActions, check: Callable[[], None]) -> None:
        """Write a commit as the next version, and apply it; nothing if `build` returns no action.

        `check` raises if the newest version does not allow the commit.
        """
        while True:
            self.refresh()
            check()
            actions = build(max(_now(), self._last_timestamp + 1))
            if not actions:
                return
            content = encode_actions(actions)
            with self._storage.prepare_commit(content) as commit:
                is_committed = commit(_commit_file(self.version + 1))
            if is_committed:
                self._apply_commit(self._parse_own(content))
                return

    def _parse_own(self, content: bytes) -> ParsedCommit:
        return parse_commit(content, self._time_column, self._application_id)

    def set_history(self, history: float) -> None:
        """Set how many seconds superseded versions stay readable, and upgrade an older table."""
        self._change_metadata("SET TBLPROPERTIES", lambda: self._metadata.upgrade_actions(history))

    @property
    def metadata(self) -> TableMetadata:
        """Columns and properties of the known version."""
        return self._metadata

    def replace_columns(
        self,
        columns: pa.Schema,
        properties: Mapping[str, str],
        *,
        dropped: Collection[str] = (),
        add: Sequence[DataFile] = (),
        remove: Sequence[DataFile] = (),
        unchanged: Collection[str] | None = None,
    ) -> None:
        """Give the table columns, properties and the files that were rewritten for them.

        `dropped`: columns that the table has under a new name. `remove`: all files that cannot be
        read as the new columns. `unchanged`: the paths of all others; None: any. Raises
        `CommitConflict` when one of the removed files is gone, or there is another file.
        """
        operation = "REPLACE COLUMNS" if add or dropped else "ADD COLUMNS"

        def build(timestamp: int) -> list[Mapping[str, Any]]:
            metadata = self._metadata.replace_columns_actions(columns, dropped, properties)
            if not (metadata or add or remove):
                return []
            info = self._commit_info(CommitSummary(operation), timestamp, add, remove)
            removed = [remove_action(file, timestamp, data_change=False) for file in remove]
            added = [
                add_action(file, self._time_column, timestamp, data_change=False) for file in add
            ]
            return [info, *metadata, *removed, *added]

        def check() -> None:
            self._check_conflicts(remove, None)
            if unchanged is not None:
                expected = {*unchanged, *(file.path for file in remove)}
                for chunk_files in self.files_by_chunk.values():
                    if not chunk_files.files_by_path.keys() <= expected:
                        raise CommitConflict

        self._write_commit(build, check)

    def _change_metadata(
        self, operation: str, build: Callable[[], Sequence[Mapping[str, Any]]]
    ) -> None:
        def build_commit(timestamp: int) -> list[Mapping[str, Any]]:
            actions = build()
            if not actions:
                return []
            return [self._commit_info(CommitSummary(operation), timestamp), *actions]

        self._write_commit(build_commit, lambda: None)

    def _check_conflicts(self, remove: Sequence[DataFile], replaced_chunk: int | None) -> None:
        if not all(self.contains(file.path) for file in remove):
            raise CommitConflict
        if replaced_chunk is not None:
            chunk_files = self.files_by_chunk.get(replaced_chunk)
            if chunk_files is not None and chunk_files.file_count > len(remove):
                raise CommitConflict

    def _check_duration(self, seconds: float) -> None:
        """Raise `StorageFailed` if files started so many seconds ago may have been vacuumed."""
        if 0 < self._storage.min_file_retention < 2 * seconds:
            raise StorageFailed(
                f"{self._storage}: writing files took {seconds / 60:.0f} minutes and they may have "
                "been removed as unreferenced, so nothing was committed: check the upload speed"
            )

    def checkpoint(self) -> None:
        """Write a checkpoint and clean up old commits if many were made since the last one."""
        if self.version - self._last_checkpoint() >= _CHECKPOINT_INTERVAL:
            table = self._storage.open_table()
            with self._storage.translate_errors():
                table.create_checkpoint()
                table.cleanup_metadata()

    def purge(self) -> None:
        """Remove files and commits that the newest version does not need, whatever their age.

        Only while no other process uses the table. Uncommitted files of other programs stay.
        """
        with self._storage.translate_errors():
            table = self._storage.open_table()
            table.create_checkpoint()
        purge_log(self._storage, int(table.version()))
        self._list_again_at = 0.0
        removed = {**self.removed_files()}
        for path in self.unreferenced_files():
            if path in removed or is_written_by_moirae(path):
                self._storage.remove(path)
                self.forget_files([path])

    def _last_checkpoint(self) -> int:
        """The version of the last checkpoint; 0 without any."""
        try:
            content = self._storage.read_log_file(f"{LOG_FOLDER}/_last_checkpoint")
        except FileNotFoundError:
            return 0
        return int(orjson.loads(content)["version"])


def purge_log(storage: Storage, version: int) -> None:
    """Remove the files of a log before a version that has a checkpoint."""
    for name in (storage / LOG_FOLDER).list_sizes():
        number = name[:_VERSION_DIGITS]
        if number.isdigit() and int(number) < version:
            storage.remove(f"{LOG_FOLDER}/{name}")


def _restrict(removed: Mapping[str, RemovedFile], names: Collection[str]) -> dict[str, RemovedFile]:
    """The removed files among some, in the same order."""
    present = set(names)
    return {path: file for path, file in removed.items() if path in present}


def _parameters(
    operation: str, add: Sequence[DataFile], remove: Sequence[DataFile]
) -> dict[str, str]:
    """The parameters of an operation, as Spark shows them."""
    if operation == "WRITE":
        mode = "Overwrite" if remove else "Append"
        return {"mode": mode, "partitionBy": '["chunk"]'}
    chunks = sorted({file.chunk for file in (*add, *remove)})
    listed = ", ".join(map(str, chunks))
    return {"predicate": orjson.dumps([f"chunk IN ({listed})"]).decode()}


def _commit_file(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"


def _now() -> int:
    """Milliseconds since 1970."""
    return int(unix_now() * 1000)
