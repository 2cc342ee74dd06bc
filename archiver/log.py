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

from archiver.clock import going
from archiver.errors import LogDamaged, StorageFailed
from archiver.place import LOG, Place
from archiver.times import from_micros, to_micros

# How the names of our own files begin: as they were appended; clustered. Their statistics are exact; other writers of
# Delta cut times off to milliseconds.
LOOSE, CLUSTERED = "a-", "c-"
_CUT_OFF = 999
_CONFIGURATION = {"delta.checkpointInterval": "100", "delta.logRetentionDuration": "interval 1 days"}
# Commits between two checkpoints of the log: often enough to open fast, rare enough to cost little.
_CHECKPOINT = 200


def opened(where: Place, schema: pa.Schema) -> DeltaTable:
    """The table in a place, partitioned by chunk; created when absent."""
    return where.opened(schema=schema, partition_by=["chunk"], configuration=_CONFIGURATION)


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
    def exact(self) -> bool:
        """Whether each of its rows is known to have a time from `oldest` to `newest`; not so of other writers' files,
        whose rows may have none."""
        return _is_ours(self.path)

    def within(self, low: int | None, high: int | None) -> bool:
        """Whether it may hold event times in [low, high)."""
        return _within(self, low, high)


@dataclass
class ChunkFiles:
    """What a chunk holds in one table: its files, rows, bytes, and the span of event time, in microseconds."""

    paths: dict[str, DataFile] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    oldest: int = 0
    newest: int = 0

    @property
    def files(self) -> int:
        return len(self.paths)

    def within(self, low: int | None, high: int | None) -> bool:
        """Whether there may be event times in [low, high)."""
        return _within(self, low, high)

    def add(self, file: DataFile) -> None:
        """A file that was committed."""
        first = not self.paths
        self.paths[file.path] = file
        self.rows += file.rows
        self.bytes += file.bytes
        self.oldest = file.oldest if first else min(self.oldest, file.oldest)
        self.newest = file.newest if first else max(self.newest, file.newest)

    def remove(self, path: str) -> None:
        """A file that was superseded or deleted. The span stays: another file holds what it held, or nobody asks."""
        file = self.paths.pop(path, None)
        if file is not None:
            self.rows -= file.rows
            self.bytes -= file.bytes


class Superseded(Exception):
    """What a commit was to replace, or to go on from, has been replaced by another."""


class Log:
    """Which files make up the newest version of a table. `time` names its event time column.

    `application`: under that name commits say up to which number they hold rows (a transaction identifier of Delta's);
    `number` is the last, 0 for none.
    """

    def __init__(self, where: Place, time: str, table: DeltaTable, application: str | None = None) -> None:
        self._place = where
        self._time = time
        self._application = application
        self._load(table)

    def _load(self, table: DeltaTable) -> None:
        self.version = int(table.version())
        self.number = 0 if self._application is None else table.transaction_version(self._application) or 0
        self.chunks: dict[int, ChunkFiles] = {}
        actions = pa.table(table.get_add_actions(flatten=True))
        if not len(actions):
            return
        names = ("path", "partition.chunk", "num_records", "size_bytes", f"min.{self._time}", f"max.{self._time}")
        for path, chunk, rows, size, oldest, newest in zip(*(actions[n].to_pylist() for n in names), strict=True):
            self._add(DataFile(path, chunk, rows, size, to_micros(oldest), _end(path, to_micros(newest))))

    def _add(self, file: DataFile) -> None:
        self.chunks.setdefault(file.chunk, ChunkFiles()).add(file)

    def _remove(self, path: str) -> None:
        chunk = _chunk_of(path)
        held = self.chunks.get(chunk)
        if held is not None:
            held.remove(path)
            if not held.paths:
                del self.chunks[chunk]

    def holds(self, path: str) -> bool:
        """Whether a file belongs to the newest version that is known."""
        held = self.chunks.get(_chunk_of(path))
        return held is not None and path in held.paths

    def orphans(self) -> list[str]:
        """Files that are no part of the newest version: superseded, never committed, or commits never made."""
        found = self._place.files()
        self.follow()
        return [name for name in found if name.startswith("_") or not self.holds(name)]

    def missing(self) -> list[str]:
        """Data files of the version that is known which are not there."""
        listed = [path for held in self.chunks.values() for path in held.paths]
        found = set(self._place.files())
        return [path for path in listed if path not in found]

    def follow(self) -> None:
        """See what was committed since. Raises `LogDamaged` for a commit that cannot be read."""
        while True:
            try:
                text = self._place.read(_commit(self.version + 1))
            except FileNotFoundError:
                if not self._place.exists(_commit(self.version)):
                    self._load(self._place.table())  # so long ago that the commits in between have been cleared away
                return
            self._take(text)

    def _take(self, text: bytes) -> None:
        number = self.version + 1
        try:
            actions = [orjson.loads(line) for line in text.splitlines() if line.strip()]
            added = [self._file(action["add"]) for action in actions if "add" in action]
            removed = [unquote(action["remove"]["path"]) for action in actions if "remove" in action]
            marks = [action["txn"] for action in actions if "txn" in action]
            numbers = [int(mark["version"]) for mark in marks if mark["appId"] == self._application]
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise LogDamaged(f"{self._place}/{_commit(number)} is damaged: {error}") from error
        if not actions:
            raise LogDamaged(f"{self._place}/{_commit(number)} is damaged: it is empty")
        for file in added:
            self._add(file)
        for path in removed:
            self._remove(path)
        self.number = numbers[-1] if numbers else self.number
        self.version = number

    def _file(self, add: Mapping[str, Any]) -> DataFile:
        stats = orjson.loads(add["stats"])
        oldest, newest = (
            to_micros(datetime.fromisoformat(stats[end][self._time])) for end in ("minValues", "maxValues")
        )
        chunk = int(add["partitionValues"]["chunk"])
        path = unquote(add["path"])
        return DataFile(path, chunk, stats["numRecords"], add["size"], oldest, _end(path, newest))

    def commit(
        self,
        operation: str,
        add: Sequence[DataFile],
        remove: Iterable[str],
        moment: int,
        note: Mapping[str, str],
        whole: int | None = None,
        numbers: tuple[int, int] | None = None,
        began: float | None = None,
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
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": moment, "operation": operation, **note}}]
        actions += [{"remove": self._gone(path, moment, change)} for path in removed]
        actions += [{"add": self._added(file, moment, change)} for file in add]
        if numbers is not None:
            mark = {"appId": self._application, "version": numbers[1], "lastUpdated": moment}
            actions.append({"txn": mark})
        text = b"\n".join(map(orjson.dumps, actions)) + b"\n"
        with self._place.committing(text) as commit:
            while True:
                self.follow()
                held = None if whole is None else self.chunks.get(whole)
                if not all(map(self.holds, removed)) or (held is not None and held.files > len(removed)):
                    raise Superseded
                if numbers is not None and numbers[0] != self.number:
                    raise Superseded
                if began is not None and 0 < self._place.patience < 2 * (going() - began):
                    raise StorageFailed(
                        f"{self._place}: files took {(going() - began) / 60:.0f} minutes to get there, and may be gone "
                        "again; nothing is committed"
                    )
                if commit(_commit(self.version + 1)):
                    break
        self._take(text)

    def _added(self, file: DataFile, moment: int, change: bool) -> dict[str, Any]:
        stats = {
            "numRecords": file.rows,
            "minValues": {self._time: _written(file.oldest)},
            "maxValues": {self._time: _written(file.newest)},
            "nullCount": {self._time: 0},
        }
        return {
            "path": file.path,
            "partitionValues": {"chunk": str(file.chunk)},
            "size": file.bytes,
            "modificationTime": moment,
            "dataChange": change,
            "stats": orjson.dumps(stats).decode(),
        }

    def _gone(self, path: str, moment: int, change: bool) -> dict[str, Any]:
        file = self.chunks[_chunk_of(path)].paths[path] if self.holds(path) else None
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
            last = orjson.loads(self._place.read(f"{LOG}/_last_checkpoint"))["version"]
        except FileNotFoundError:
            last = 0
        if self.version - last >= _CHECKPOINT:
            table = self._place.table()
            with self._place.told():
                table.create_checkpoint()
                table.cleanup_metadata()


def _commit(number: int) -> str:
    return f"{LOG}/{number:020d}.json"


def _within(span: DataFile | ChunkFiles, low: int | None, high: int | None) -> bool:
    return (low is None or span.newest >= low) and (high is None or span.oldest < high)


def _chunk_of(path: str) -> int:
    return int(path.split("/", 1)[0].removeprefix("chunk="))


def _end(path: str, newest: int) -> int:
    return newest if _is_ours(path) else newest + _CUT_OFF


def _is_ours(path: str) -> bool:
    return path.split("/", 1)[1].startswith((LOOSE, CLUSTERED))


def _written(micros: int) -> str:
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
