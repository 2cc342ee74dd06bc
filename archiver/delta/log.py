"""The Delta log of one table, partitioned by chunk: followed and extended commit by commit.

The library reads a table's whole state again with each append, so that appending grows slower with every file. Here
what a commit says is added to what is known, whatever the number of files. A commit is made under the next number,
which fails when somebody else took it.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from archiver.times import from_micros, to_micros

# How the names of our own files begin: as they were appended; clustered. Their statistics are exact; other writers of
# Delta cut times off to milliseconds.
UNCLUSTERED_PREFIX, CLUSTERED_PREFIX = "a-", "c-"
_MAX_TRUNCATION = 999
_TABLE_CONFIGURATION = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
}
# Commits between two checkpoints of the log: often enough to open fast, rare enough to cost little.
_CHECKPOINT_INTERVAL = 200


def open_or_create_table(storage: Storage, schema: pa.Schema) -> DeltaTable:
    """The table in a place, partitioned by chunk; created when absent."""
    return storage.open_or_create_table(
        schema=schema, partition_by=["chunk"], configuration=_TABLE_CONFIGURATION
    )


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table. `path` is relative to the table; event times in microseconds."""

    path: str
    chunk: int
    rows: int
    bytes: int
    oldest: int
    newest: int

    @property
    def has_exact_bounds(self) -> bool:
        """Whether each of its rows is known to have a time from `oldest` to `newest`; not so of other writers' files,
        whose rows may have none."""
        return _is_written_by_moirae(self.path)

    def overlaps(self, low: int | None, high: int | None) -> bool:
        """Whether it may hold event times in [low, high)."""
        return _overlaps(self, low, high)


@dataclass
class ChunkFiles:
    """What a chunk holds in one table: its files, rows, bytes, and the span of event time, in microseconds."""

    files_by_path: dict[str, DataFile] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    oldest: int = 0
    newest: int = 0

    @property
    def file_count(self) -> int:
        return len(self.files_by_path)

    def overlaps(self, low: int | None, high: int | None) -> bool:
        """Whether there may be event times in [low, high)."""
        return _overlaps(self, low, high)

    def add(self, file: DataFile) -> None:
        """A file that was committed."""
        first = not self.files_by_path
        self.files_by_path[file.path] = file
        self.rows += file.rows
        self.bytes += file.bytes
        self.oldest = file.oldest if first else min(self.oldest, file.oldest)
        self.newest = file.newest if first else max(self.newest, file.newest)

    def remove(self, path: str) -> None:
        """A file that was superseded or deleted. The span stays: another file holds what it held, or nobody asks."""
        file = self.files_by_path.pop(path, None)
        if file is not None:
            self.rows -= file.rows
            self.bytes -= file.bytes


class DeltaLog:
    """Which files make up the newest version of a table. `time` names its event time column.

    `application`: under that name commits say up to which number they hold rows (a transaction identifier of Delta's);
    `number` is the last, 0 for none.
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
        self.version = int(table.version())
        self.sequence_number = (
            0
            if self._application_id is None
            else table.transaction_version(self._application_id) or 0
        )
        self.files_by_chunk: dict[int, ChunkFiles] = {}
        actions = pa.table(table.get_add_actions(flatten=True))
        if not len(actions):
            return
        names = (
            "path",
            "partition.chunk",
            "num_records",
            "size_bytes",
            f"min.{self._time_column}",
            f"max.{self._time_column}",
        )
        for path, chunk, rows, size, oldest, newest in zip(
            *(actions[n].to_pylist() for n in names), strict=True
        ):
            self._add_file(
                DataFile(
                    path,
                    chunk,
                    rows,
                    size,
                    to_micros(oldest),
                    _upper_bound(path, to_micros(newest)),
                )
            )

    def _add_file(self, file: DataFile) -> None:
        self.files_by_chunk.setdefault(file.chunk, ChunkFiles()).add(file)

    def _remove_file(self, path: str) -> None:
        chunk = _chunk_of(path)
        held = self.files_by_chunk.get(chunk)
        if held is not None:
            held.remove(path)
            if not held.files_by_path:
                del self.files_by_chunk[chunk]

    def contains(self, path: str) -> bool:
        """Whether a file belongs to the newest version that is known."""
        held = self.files_by_chunk.get(_chunk_of(path))
        return held is not None and path in held.files_by_path

    def unreferenced_files(self) -> list[str]:
        """Files that are no part of the newest version: superseded, never committed, or commits never made."""
        found = self._storage.list_files()
        self.refresh()
        return [name for name in found if name.startswith("_") or not self.contains(name)]

    def missing_files(self) -> list[str]:
        """Data files of the version that is known which are not there."""
        listed = [path for held in self.files_by_chunk.values() for path in held.files_by_path]
        found = set(self._storage.list_files())
        return [path for path in listed if path not in found]

    def refresh(self) -> None:
        """See what was committed since. Raises `LogDamaged` for a commit that cannot be read."""
        while True:
            try:
                text = self._storage.read_log_file(_commit_file(self.version + 1))
            except FileNotFoundError:
                if not self._storage.exists(_commit_file(self.version)):
                    self._load(
                        self._storage.open_table()
                    )  # so long ago that the commits in between have been cleared away
                return
            self._apply_commit(text)

    def _apply_commit(self, text: bytes) -> None:
        number = self.version + 1
        try:
            actions = [orjson.loads(line) for line in text.splitlines() if line.strip()]
            added = [self._parse_add_action(action["add"]) for action in actions if "add" in action]
            removed = [
                unquote(action["remove"]["path"]) for action in actions if "remove" in action
            ]
            marks = [action["txn"] for action in actions if "txn" in action]
            numbers = [
                int(mark["version"]) for mark in marks if mark["appId"] == self._application_id
            ]
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise LogDamaged(
                f"{self._storage}/{_commit_file(number)} is damaged: {error}"
            ) from error
        if not actions:
            raise LogDamaged(f"{self._storage}/{_commit_file(number)} is damaged: it is empty")
        for file in added:
            self._add_file(file)
        for path in removed:
            self._remove_file(path)
        self.sequence_number = numbers[-1] if numbers else self.sequence_number
        self.version = number

    def _parse_add_action(self, add: Mapping[str, Any]) -> DataFile:
        stats = orjson.loads(add["stats"])
        oldest, newest = (
            to_micros(datetime.fromisoformat(stats[end][self._time_column]))
            for end in ("minValues", "maxValues")
        )
        chunk = int(add["partitionValues"]["chunk"])
        path = unquote(add["path"])
        return DataFile(
            path, chunk, stats["numRecords"], add["size"], oldest, _upper_bound(path, newest)
        )

    def commit(
        self,
        operation: str,
        add: Sequence[DataFile],
        remove: Iterable[str],
        timestamp: int,
        commit_info: Mapping[str, str],
        replaced_chunk: int | None = None,
        sequence_range: tuple[int, int] | None = None,
        started_at: float | None = None,
    ) -> None:
        """Make files part of the table, and others not, at once. `moment`: the clock, in milliseconds.

        `whole`: a chunk of which the files to remove are all there are. `numbers`: the table holds rows up to the first
        and then up to the second. Raises `Superseded` when some of the files to remove are gone already, that chunk has
        others by now, or the table's number is another. `began`: by `archiver.clock`, when the first of the files to
        add was begun; raises `StorageFailed` when they may have been removed since. Rows that are only rewritten are no
        change of data.
        """
        removed = list(remove)
        change = not (add and removed)
        actions: list[dict[str, Any]] = [
            {"commitInfo": {"timestamp": timestamp, "operation": operation, **commit_info}}
        ]
        actions += [{"remove": self._remove_action(path, timestamp, change)} for path in removed]
        actions += [{"add": self._add_action(file, timestamp, change)} for file in add]
        if sequence_range is not None:
            mark = {
                "appId": self._application_id,
                "version": sequence_range[1],
                "lastUpdated": timestamp,
            }
            actions.append({"txn": mark})
        text = b"\n".join(map(orjson.dumps, actions)) + b"\n"
        with self._storage.prepare_commit(text) as commit:
            while True:
                self.refresh()
                held = None if replaced_chunk is None else self.files_by_chunk.get(replaced_chunk)
                if not all(map(self.contains, removed)) or (
                    held is not None and held.file_count > len(removed)
                ):
                    raise CommitConflict
                if sequence_range is not None and sequence_range[0] != self.sequence_number:
                    raise CommitConflict
                if started_at is not None and 0 < self._storage.min_file_retention < 2 * (
                    seconds_since_boot() - started_at
                ):
                    raise StorageFailed(
                        f"{self._storage}: files took {(seconds_since_boot() - started_at) / 60:.0f} minutes to get there, and may be gone "
                        "again; nothing is committed"
                    )
                if commit(_commit_file(self.version + 1)):
                    break
        self._apply_commit(text)

    def _add_action(self, file: DataFile, moment: int, change: bool) -> dict[str, Any]:
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
            "modificationTime": moment,
            "dataChange": change,
            "stats": orjson.dumps(stats).decode(),
        }

    def _remove_action(self, path: str, moment: int, change: bool) -> dict[str, Any]:
        file = (
            self.files_by_chunk[_chunk_of(path)].files_by_path[path]
            if self.contains(path)
            else None
        )
        return {
            "path": path,
            "deletionTimestamp": moment,
            "dataChange": change,
            "extendedFileMetadata": True,
            "partitionValues": {"chunk": str(_chunk_of(path))},
            "size": file.bytes if file else 0,
        }

    def checkpoint(self) -> None:
        """When many commits have come since the last one: gather the log, so that opening the table stays fast."""
        try:
            last = orjson.loads(self._storage.read_log_file(f"{LOG_FOLDER}/_last_checkpoint"))[
                "version"
            ]
        except FileNotFoundError:
            last = 0
        if self.version - last >= _CHECKPOINT_INTERVAL:
            table = self._storage.open_table()
            with self._storage.translate_errors():
                table.create_checkpoint()
                table.cleanup_metadata()


def _commit_file(number: int) -> str:
    return f"{LOG_FOLDER}/{number:020d}.json"


def _overlaps(span: DataFile | ChunkFiles, low: int | None, high: int | None) -> bool:
    return (low is None or span.newest >= low) and (high is None or span.oldest < high)


def _chunk_of(path: str) -> int:
    return int(path.split("/", 1)[0].removeprefix("chunk="))


def _upper_bound(path: str, newest: int) -> int:
    return newest if _is_written_by_moirae(path) else newest + _MAX_TRUNCATION


def _is_written_by_moirae(path: str) -> bool:
    return path.split("/", 1)[1].startswith((UNCLUSTERED_PREFIX, CLUSTERED_PREFIX))


def _format_time(micros: int) -> str:
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
