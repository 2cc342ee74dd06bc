"""The bytes of a table on disk by what they are, from its log: its folder is not listed.

The bytes of a stream's files are the user's columns and the *place*: the columns of the archive
beside them, and the metadata of the file. The commit that adds a file says how many these are. A
file of an earlier version is looked at if it is local; in object storage all of it counts as columns.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from archiver.clock import unix_now
from archiver.delta.archive_tables import ArchiveTable
from archiver.delta.data_files import count_place_bytes
from archiver.delta.file_checks import read_present_version
from archiver.delta.table_version import TableVersion
from archiver.storage import LOG_FOLDER, LocalStorage

_CHUNK_FOLDER = re.compile(r"chunk=(\d+)/")
NO_CHUNK = -1  # of files outside the folders of chunks


@dataclass
class ChunkBytes:
    """The bytes of a table's files of one chunk. `place`: those that are not the user's columns."""

    total: int = 0
    place: int = 0

    @property
    def columns(self) -> int:
        return self.total - self.place


@dataclass(frozen=True)
class TableBytes:
    """The bytes of a table.

    `superseded`: of files that earlier versions have, kept for `archive_history`. `log`: of commits
    and checkpoints.
    """

    chunks: Mapping[int, ChunkBytes]
    superseded: int
    log: int

    @property
    def files(self) -> int:
        """Bytes of the files of the present version."""
        return sum(chunk.total for chunk in self.chunks.values())


@dataclass
class TableMeasurement:
    """Measures tables again and again. `history`: seconds that superseded files stay.

    It remembers the files of earlier versions that it has looked at.
    """

    history: float
    _seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def measure(self, table: ArchiveTable, columns: Collection[str]) -> TableBytes | None:
        """The bytes of a table; None: it is gone. `columns`: the user's, of a stream; else none.

        Raises `OSError` and `ArchiverError`.
        """
        version = read_present_version(table)
        if version is None:
            return None
        place_bytes = self._find_place_bytes(version, columns) if columns else {}
        chunks: dict[int, ChunkBytes] = {}
        for path, size in version.files.items():
            match = _CHUNK_FOLDER.match(path)
            chunk = chunks.setdefault(int(match[1]) if match else NO_CHUNK, ChunkBytes())
            chunk.total += size
            chunk.place += min(place_bytes.get(path, 0), size)
        readable_since = (unix_now() - self.history) * 1_000
        superseded = 0
        for path, (size, removed_at) in _list_removed(version.log_files).items():
            if path not in version.files and removed_at > readable_since:
                superseded += size
        log = sum((table.storage / LOG_FOLDER).list_sizes().values())
        return TableBytes(chunks, superseded, log)

    def _find_place_bytes(
        self, version: TableVersion, columns: Collection[str]
    ) -> Mapping[str, int]:
        seen = self._seen.get(version.table.name, {})
        place_bytes = dict(version.place_bytes)
        measured: dict[str, int] = {}
        storage = version.table.storage
        for path in version.files.keys() - place_bytes.keys():
            if path in seen:
                measured[path] = seen[path]
            elif isinstance(storage, LocalStorage):
                try:
                    measured[path] = count_place_bytes(storage.data_folder / path, columns)
                except (OSError, pa.ArrowException):  # damaged, or replaced meanwhile
                    continue
        self._seen[version.table.name] = measured
        return place_bytes | measured


def _list_removed(log_files: Mapping[str, bytes]) -> dict[str, tuple[int, int]]:
    """Bytes and time of removal (milliseconds) of the files that a log names as removed, by path."""
    removed: dict[str, tuple[int, int]] = {}
    for name, content in log_files.items():
        if name.endswith((".json", ".parquet")):
            for remove in _read_removes(name, content):
                size, removed_at = remove.get("size"), remove.get("deletionTimestamp")
                removed[unquote(remove["path"])] = size or 0, removed_at or 0
    return removed


def _read_removes(name: str, content: bytes) -> Iterator[Mapping[str, Any]]:
    if name.endswith(".json"):
        for line in content.splitlines():
            if line.startswith(b'{"remove"'):
                yield orjson.loads(line)["remove"]
        return
    file = pq.ParquetFile(pa.BufferReader(content))
    if "remove" in file.schema_arrow.names:
        yield from file.read(columns=["remove"])["remove"].drop_null().to_pylist()
