"""The Delta log of one table partitioned by chunk, read and extended commit by commit.

The deltalake library reads the whole state of a table for each append, so that appends get slower
with every file. Here each commit only updates the known state, whatever the number of files.
A commit is written under the next version number; this fails if another process wrote that one.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from archiver.clock import seconds_since_boot
from archiver.errors import CommitConflict, LogDamaged, StorageFailed
from archiver.storage import LOG_FOLDER, Storage
from archiver.time_range import TimeRange
from archiver.times import Micros, from_micros, to_micros

# File names of this program begin with one of these. Statistics of such files are exact; other
# writers of Delta may truncate times to milliseconds.
UNCLUSTERED_PREFIX = "a-"
CLUSTERED_PREFIX = "c-"
_MAX_TRUNCATION = 999  # microseconds
_TABLE_CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
}
# Commits between two checkpoints: often enough to open tables fast, rare enough to cost little.
_CHECKPOINT_INTERVAL = 200


def open_or_create_delta_table(storage: Storage, schema: pa.Schema) -> DeltaTable:
    """Open the table of a folder; create it, partitioned by chunk, if it is absent."""
    return storage.open_or_create_table(
        schema=schema, partition_by=["chunk"], configuration=_TABLE_CONFIGURATION
    )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table. `path` is relative to the table."""

    path: str
    chunk: int
    rows: int
    bytes: int
    oldest: Micros
    newest: Micros

    @property
    def has_exact_bounds(self) -> bool:
        """Whether every row has an event time from `oldest` to `newest`.

        False for files of other writers: their statistics may be truncated, and times null.
        """
        return _is_written_by_moirae(self.path)

    def overlaps(self, time_range: TimeRange) -> bool:
        """Whether the file may hold event times in a range."""
        return time_range.overlaps_times(self.oldest, self.newest)


@dataclass
class ChunkFiles:
    """The files of one chunk in one table, with their total rows and bytes.

    `oldest` and `newest` bound the event times.
    """

    files_by_path: dict[str, DataFile] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    oldest: Micros = 0
    newest: Micros = 0

    @property
    def file_count(self) -> int:
        return len(self.files_by_path)

    def overlaps(self, time_range: TimeRange) -> bool:
        """Whether a file may hold event times in a range."""
        return time_range.overlaps_times(self.oldest, self.newest)

    def add(self, file: DataFile) -> None:
        """Add a committed file."""
        if self.files_by_path:
            self.oldest = min(self.oldest, file.oldest)
            self.newest = max(self.newest, file.newest)
        else:
            self.oldest = file.oldest
            self.newest = file.newest
        self.files_by_path[file.path] = file
        self.rows += file.rows
        self.bytes += file.bytes

    def remove(self, path: str) -> None:
        """Remove a file that was replaced or deleted. The time bounds are not narrowed."""
        file = self.files_by_path.pop(path, None)
        if file is not None:
            self.rows -= file.rows
            self.bytes -= file.bytes


@dataclass(frozen=True)
class _ParsedCommit:
    """The actions of one commit. `sequence_number`: None if the commit does not set it."""

    added: list[DataFile]
    removed_paths: list[str]
    sequence_number: int | None


class DeltaLog:
    """The files of the newest known version of a table. `time_column` names its event time.

    With an `application_id` commits record up to which number the table holds rows, as a Delta
    transaction identifier; `sequence_number` is the last one, 0 for none.
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
        self._load(table)

    def _load(self, table: DeltaTable) -> None:
        """Replace the known state by the table's current one."""
        self.version = int(table.version())
        self.sequence_number = 0
        if self._application_id is not None:
            self.sequence_number = table.transaction_version(self._application_id) or 0
        self.files_by_chunk: dict[int, ChunkFiles] = {}
        for file in self._files_of(table):
            self._add_file(file)

    def _files_of(self, table: DeltaTable) -> Iterator[DataFile]:
        actions = pa.table(table.get_add_actions(flatten=True))
        if not len(actions):
            return  # then the statistics columns are missing
        names = (
            "path",
            "partition.chunk",
            "num_records",
            "size_bytes",
            f"min.{self._time_column}",
            f"max.{self._time_column}",
        )
        columns = [actions[name].to_pylist() for name in names]
        for path, chunk, rows, size, oldest, newest in zip(*columns, strict=True):
            upper_bound = _upper_bound(path, to_micros(newest))
            yield DataFile(path, chunk, rows, size, to_micros(oldest), upper_bound)

    def _add_file(self, file: DataFile) -> None:
        self.files_by_chunk.setdefault(file.chunk, ChunkFiles()).add(file)

    def _remove_file(self, path: str) -> None:
        chunk = _chunk_of(path)
        chunk_files = self.files_by_chunk.get(chunk)
        if chunk_files is not None:
            chunk_files.remove(path)
            if not chunk_files.files_by_path:
                del self.files_by_chunk[chunk]

    def contains(self, path: str) -> bool:
        """Whether a file belongs to the newest known version."""
        chunk_files = self.files_by_chunk.get(_chunk_of(path))
        return chunk_files is not None and path in chunk_files.files_by_path

    def unreferenced_files(self) -> list[str]:
        """List files that are no part of the newest version: replaced, or never committed."""
        # Listed before the log is read: a file committed in between belongs to the table.
        names = self._storage.list_files()
        self.refresh()
        return [name for name in names if name.startswith("_") or not self.contains(name)]

    def missing_files(self) -> list[str]:
        """List data files of the newest known version that do not exist."""
        existing = set(self._storage.list_files())
        missing: list[str] = []
        for chunk_files in self.files_by_chunk.values():
            missing.extend(path for path in chunk_files.files_by_path if path not in existing)
        return missing

    def refresh(self) -> None:
        """Apply the commits since the known version. Raises `LogDamaged` for an invalid commit."""
        while True:
            try:
                content = self._storage.read_log_file(_commit_file(self.version + 1))
            except FileNotFoundError:
                if not self._storage.exists(_commit_file(self.version)):
                    # The known version is so old that later commits may have been cleaned up.
                    self._load(self._storage.open_table())
                return
            self._apply_commit(content)

    def _apply_commit(self, content: bytes) -> None:
        version = self.version + 1
        try:
            commit = self._parse_commit(content)
        except (KeyError, TypeError, ValueError) as error:
            raise LogDamaged(
                f"{self._storage}/{_commit_file(version)}: corrupt commit: {error}"
            ) from error
        for file in commit.added:
            self._add_file(file)
        for path in commit.removed_paths:
            self._remove_file(path)
        if commit.sequence_number is not None:
            self.sequence_number = commit.sequence_number
        self.version = version

    def _parse_commit(self, content: bytes) -> _ParsedCommit:
        """Parse the lines of a commit file, one JSON action each."""
        lines = filter(bytes.strip, content.splitlines())
        actions = [orjson.loads(line) for line in lines]
        if not actions:
            raise ValueError("file is empty")
        added: list[DataFile] = []
        removed_paths: list[str] = []
        sequence_number = None
        for action in actions:
            if "add" in action:
                added.append(self._parse_add_action(action["add"]))
            if "remove" in action:
                removed_paths.append(unquote(action["remove"]["path"]))
            if "txn" in action and action["txn"]["appId"] == self._application_id:
                sequence_number = int(action["txn"]["version"])
        return _ParsedCommit(added, removed_paths, sequence_number)

    def _parse_add_action(self, add: Mapping[str, Any]) -> DataFile:
        stats = orjson.loads(add["stats"])
        path = unquote(add["path"])
        newest = _parse_time(stats["maxValues"][self._time_column])
        return DataFile(
            path=path,
            chunk=int(add["partitionValues"]["chunk"]),
            rows=stats["numRecords"],
            bytes=add["size"],
            oldest=_parse_time(stats["minValues"][self._time_column]),
            newest=_upper_bound(path, newest),
        )

    def commit(
        self,
        operation: str,
        *,
        add: Sequence[DataFile] = (),
        remove: Sequence[DataFile] = (),
        commit_info: Mapping[str, str] | None = None,
        replaced_chunk: int | None = None,
        sequence_range: tuple[int, int] | None = None,
        started_at: float | None = None,
    ) -> None:
        """Add files to the table and remove others in one commit.

        `commit_info`: more entries of the commit's `commitInfo`. `replaced_chunk`: a chunk of which
        the removed files must be all. `sequence_range`: the table's sequence number must be the
        first and becomes the second. `started_at`: seconds of `archiver.clock` at which the first
        of the added files was started.

        Raises `CommitConflict` when a removed file is gone already, the replaced chunk has other
        files, or the sequence number differs. Raises `StorageFailed` when so much time has passed
        since `started_at` that a vacuum may have removed the added files. A commit that both adds
        and removes files only rewrites rows: it is marked as no change of data.
        """
        timestamp = int(time.time() * 1000)
        data_change = not (add and remove)
        actions: list[dict[str, Any]] = [
            {"commitInfo": {"timestamp": timestamp, "operation": operation, **(commit_info or {})}}
        ]
        for file in remove:
            actions.append({"remove": self._remove_action(file, timestamp, data_change)})
        for file in add:
            actions.append({"add": self._add_action(file, timestamp, data_change)})
        if sequence_range is not None:
            transaction = {
                "appId": self._application_id,
                "version": sequence_range[1],
                "lastUpdated": timestamp,
            }
            actions.append({"txn": transaction})
        content = b"\n".join(map(orjson.dumps, actions)) + b"\n"
        with self._storage.prepare_commit(content) as commit:
            while True:
                self.refresh()
                self._check_conflicts(remove, replaced_chunk)
                if sequence_range is not None and sequence_range[0] != self.sequence_number:
                    raise CommitConflict
                if started_at is not None:
                    self._check_duration(seconds_since_boot() - started_at)
                if commit(_commit_file(self.version + 1)):
                    break
        self._apply_commit(content)

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

    def _add_action(self, file: DataFile, timestamp: int, data_change: bool) -> dict[str, Any]:
        stats = {
            "numRecords": file.rows,
            "minValues": {self._time_column: _format_time(file.oldest)},
            "maxValues": {self._time_column: _format_time(file.newest)},
            "nullCount": {self._time_column: 0},
        }
        return {
            "path": file.path,
            "partitionValues": {"chunk": str(file.chunk)},
            "size": file.bytes,
            "modificationTime": timestamp,
            "dataChange": data_change,
            "stats": orjson.dumps(stats).decode(),
        }

    def _remove_action(self, file: DataFile, timestamp: int, data_change: bool) -> dict[str, Any]:
        return {
            "path": file.path,
            "deletionTimestamp": timestamp,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": {"chunk": str(file.chunk)},
            "size": file.bytes,
        }

    def checkpoint(self) -> None:
        """Write a checkpoint and clean up old commits if many were made since the last one."""
        try:
            content = self._storage.read_log_file(f"{LOG_FOLDER}/_last_checkpoint")
            last_checkpoint = orjson.loads(content)["version"]
        except FileNotFoundError:
            last_checkpoint = 0
        if self.version - last_checkpoint >= _CHECKPOINT_INTERVAL:
            table = self._storage.open_table()
            with self._storage.translate_errors():
                table.create_checkpoint()
                table.cleanup_metadata()


def _commit_file(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"


def _chunk_of(path: str) -> int:
    return int(path.split("/", 1)[0].removeprefix("chunk="))


def _upper_bound(path: str, newest: Micros) -> Micros:
    return newest if _is_written_by_moirae(path) else newest + _MAX_TRUNCATION


def _is_written_by_moirae(path: str) -> bool:
    return path.split("/", 1)[1].startswith((UNCLUSTERED_PREFIX, CLUSTERED_PREFIX))


def _parse_time(text: str) -> Micros:
    return to_micros(datetime.fromisoformat(text))


def _format_time(micros: Micros) -> str:
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
