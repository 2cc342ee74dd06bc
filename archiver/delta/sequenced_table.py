"""Rows of the control plane as a Delta table partitioned by chunk, archived exactly once by number.

A commit that adds rows records up to which number the table holds them. It is refused if the
table's number has changed: a restarted process continues where the last one stopped, and a process
that was replaced adds nothing twice. Files should be large from the start (see `should_commit`), as
a row that is written once costs least. Small files are merged when they add up.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.clock import seconds_since_boot
from archiver.delta.data_files import cast_to_fields, split_by_chunk, with_chunk_column
from archiver.delta.digests import compute_digest
from archiver.delta.log import (
    CLUSTERED_PREFIX,
    UNCLUSTERED_PREFIX,
    DataFile,
    DeltaLog,
    open_or_create_delta_table,
)
from archiver.storage import StorageRoot, as_storage
from archiver.times import micros_column


class TableSpec(NamedTuple):
    """A table's name and its columns besides ts, eid, rule and version, all of type string."""

    name: str
    columns: tuple[str, ...]


# Settled events.
EVENTS = TableSpec("events", ("key", "attributes"))
# The corpora of all rules.
CONTEXTS = TableSpec("contexts", ("contexts", "surroundings", "number"))

COMMIT_ROWS = 8_192  # rows that are committed at once
_FULL_FILE_ROWS = COMMIT_ROWS // 2  # rows of a file that is not compacted any more
_COMMIT_INTERVAL = 60.0  # seconds between commits of fewer rows
# Files of a size class that are compacted into one, and the ratio of sizes of two classes.
_COMPACTION_FACTOR = 8
# Rows of a row group of a sorted file: readers skip row groups by rule and version.
_ROW_GROUP_SIZE = 20_000


class SequencedTable:
    """One table, created if it is absent. Each object is for one thread.

    Several objects and processes may commit to the same table.
    """

    def __init__(self, root: StorageRoot, spec: TableSpec) -> None:
        self._name = spec.name
        string_columns = ("eid", "rule", "version", *spec.columns)
        self._schema = pa.schema(
            [
                ("ts", pa.timestamp("us", tz="UTC")),
                *((name, pa.string()) for name in string_columns),
                ("chunk", pa.int32()),
            ]
        )
        self.storage = as_storage(root) / self._name
        table = open_or_create_delta_table(self.storage, self._schema)
        self._log = DeltaLog(self.storage, "ts", table, application_id=self._name)

    @staticmethod
    def exists(root: StorageRoot, spec: TableSpec) -> bool:
        """Whether the table exists."""
        return (as_storage(root) / spec.name).has_table()

    @property
    def data_folder(self) -> Path:
        """The local folder with the data files, or with cached copies of some of them."""
        return self.storage.data_folder

    def last_number(self) -> int:
        """Refresh, and return the number of the last archived row; 0 for none."""
        self._log.refresh()
        return self._log.sequence_number

    def append(self, rows: pa.Table, after: int, last: int) -> None:
        """Commit the rows with numbers from `after` + 1 to `last`.

        Raises `CommitConflict` when `after` is not the table's last number.
        """
        rows = rows.select(self._schema.names).cast(self._schema)
        parts = list(split_by_chunk(rows))
        started_at = seconds_since_boot()
        files: list[DataFile] = []
        for chunk, part in parts:
            files.append(self._write_file(chunk, part, sort=len(part) >= _FULL_FILE_ROWS))
        self._log.commit(
            "WRITE",
            add=files,
            user_metadata={"last_number": last},
            sequence_range=(after, last),
            started_at=started_at,
        )

    def data_files(self) -> list[DataFile]:
        """List the files of the known version. They remain for a while after being replaced."""
        files: list[DataFile] = []
        for chunk_files in self._log.files_by_chunk.values():
            files.extend(chunk_files.files_by_path.values())
        return files

    def read(self, rule: str | None = None, version: str | None = None) -> pa.Table:
        """Refresh, and read all rows, or those of a rule and version."""
        self._log.refresh()
        files = self.data_files()
        self._fetch(files)
        parts = [self.read_file(file, rule, version) for file in files]
        return pa.concat_tables(parts) if parts else self._schema.empty_table()

    def read_chunks(self, rule: str, version: str) -> Iterator[pa.Table]:
        """Refresh, and read the rows of a rule and version, chunk by chunk."""
        self._log.refresh()
        self._fetch(self.data_files())
        for chunk_files in list(self._log.files_by_chunk.values()):
            files = chunk_files.files_by_path.values()
            if files:
                yield pa.concat_tables([self.read_file(file, rule, version) for file in files])

    def _fetch(self, files: Sequence[DataFile]) -> None:
        self.storage.fetch([file.path for file in files])

    def read_file(
        self, file: DataFile, rule: str | None = None, version: str | None = None
    ) -> pa.Table:
        """Read the rows of one file, or those of a rule and version."""
        filters = []
        if rule is not None:
            filters.append(("rule", "=", rule))
        if version is not None:
            filters.append(("version", "=", version))
        source = self.storage.open_data_file(file.path)
        rows = pq.read_table(source, partitioning=None, filters=filters or None)
        return cast_to_fields(with_chunk_column(rows, file.chunk), list(self._schema))

    def compact(self) -> None:
        """Merge small files in each chunk that has many. Raises `CommitConflict`."""
        self._log.refresh()
        for chunk, chunk_files in list(self._log.files_by_chunk.items()):
            files = select_for_compaction(list(chunk_files.files_by_path.values()))
            if files:
                self._merge_files(chunk, files)

    def _merge_files(self, chunk: int, files: Sequence[DataFile]) -> None:
        self._fetch(files)
        rows = pa.concat_tables([self.read_file(file) for file in files])
        started_at = seconds_since_boot()
        merged_file = self._write_file(chunk, rows, sort=True)
        self._log.commit("OPTIMIZE", add=[merged_file], remove=files, started_at=started_at)

    def _write_file(self, chunk: int, rows: pa.Table, sort: bool) -> DataFile:
        """Write a data file. It is durable, but no part of the table before its commit."""
        prefix = CLUSTERED_PREFIX if sort else UNCLUSTERED_PREFIX
        name = f"chunk={chunk}/{prefix}{uuid4().hex}.parquet"
        rows = rows.drop_columns(["chunk"])
        row_group_size = max(len(rows), 1)
        if sort:
            rows = rows.sort_by([(key, "ascending") for key in ("rule", "version", "ts")])
            row_group_size = _ROW_GROUP_SIZE
        with self.storage.write_data_file(name) as path:
            pq.write_table(
                rows,
                path,
                compression="zstd",
                use_dictionary=["rule", "version", "key"],
                column_encoding={"ts": "DELTA_BINARY_PACKED"},
                write_statistics=["rule", "version", "ts"] if sort else False,
                row_group_size=row_group_size,
                store_schema=False,
            )
            size = path.stat().st_size
            digest = compute_digest(path)
        ts = micros_column(rows, "ts")
        return DataFile(
            path=name,
            chunk=chunk,
            rows=len(rows),
            bytes=size,
            oldest=int(ts.min()),
            newest=int(ts.max()),
            digest=digest,
        )

    def rewrite(self, change: Callable[[pa.Table], pa.Table]) -> int:
        """Replace the rows of files; return how many rows are others or gone.

        `change`: returns what remains of rows, each with the same columns. Raises `CommitConflict`.
        """
        self._log.refresh()
        changed = 0
        for file in self.data_files():
            rows = self.read_file(file)
            remaining = change(rows)
            if remaining.equals(rows):
                continue
            started_at = seconds_since_boot()
            written: list[DataFile] = []
            if len(remaining):
                written.append(self._write_file(file.chunk, remaining, sort=True))
            self._log.commit("DELETE", add=written, remove=[file], started_at=started_at)
            changed += len(rows)
        return changed

    def purge(self) -> None:
        """Remove superseded files and commits at once, see `StreamTable.purge`."""
        self._log.purge()

    def checkpoint(self) -> None:
        """Write a checkpoint of the log if many commits were made since the last."""
        self._log.checkpoint()

    def unreferenced_files(self, history: float = 0.0) -> list[str]:
        """List files that are no part of a version of the last `history` seconds."""
        return self._log.unreferenced_files(history)

    def forget_files(self, paths: Collection[str]) -> None:
        """Forget unreferenced files, which were deleted."""
        self._log.forget_files(paths)

    def set_history(self, history: float) -> None:
        """Set how many seconds superseded versions stay readable, and upgrade an older table."""
        self._log.set_history(history)


def should_commit(pending_rows: int, chunk_closed: bool, seconds_since_commit: float) -> bool:
    """Whether to commit rows that are waiting to be archived.

    Many rows are committed at once. Few are committed when their chunk is closed, as it will get
    few more, and the last commit was some time ago.
    """
    if pending_rows >= COMMIT_ROWS:
        return True
    return chunk_closed and seconds_since_commit >= _COMMIT_INTERVAL


def select_for_compaction(files: Sequence[DataFile]) -> list[DataFile]:
    """Select the files of a chunk to merge: all up to the largest size class with many files.

    Sizes of the classes grow by `_COMPACTION_FACTOR`: a row is rewritten at most once for each
    class, and few files remain. Files of `_FULL_FILE_ROWS` and more are not merged.
    """
    small_files = [file for file in files if file.rows < _FULL_FILE_ROWS]
    class_counts = Counter(map(_size_class, small_files))
    crowded = [size for size, count in class_counts.items() if count >= _COMPACTION_FACTOR]
    largest = max(crowded, default=-1)
    return [file for file in small_files if _size_class(file) <= largest]


def _size_class(file: DataFile) -> int:
    size_class = 0
    while file.rows >= _COMPACTION_FACTOR ** (size_class + 1):
        size_class += 1
    return size_class
