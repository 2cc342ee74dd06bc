"""Rows of the control plane as a Delta table, partitioned by chunk: each archived exactly once, by its number.

The commit that adds rows also says up to which number the table holds them, and is refused where that was another: who
died before it goes on from there, and whoever was replaced meanwhile adds nothing twice. Files are meant to be large
from the start (see `enough`), since a row that is written once costs least; small ones that add up are merged.
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from archiver.clock import seconds_since_boot
from archiver.delta.data_files import cast_to_fields
from archiver.delta.log import (
    CLUSTERED_PREFIX,
    UNCLUSTERED_PREFIX,
    DataFile,
    DeltaLog,
    open_or_create_table,
)
from archiver.storage import StorageRoot, as_storage
from archiver.times import micros_column

# A table's name and its columns beside time, id, rule, version: the settled events; the corpora of all rules.
TableSpec = tuple[str, tuple[str, ...]]
EVENTS: TableSpec = ("events", ("key", "attributes"))
CONTEXTS: TableSpec = ("contexts", ("contexts", "surroundings", "number"))

# Rows that are enough for a commit; a file of half as many is not written again.
COMMIT_ROWS = 8_192
_FULL_FILE_ROWS = COMMIT_ROWS // 2
# Seconds between commits of fewer rows.
_COMMIT_INTERVAL = 60.0
# Files of about the same size that become one, and how much larger the next size is.
_COMPACTION_FACTOR = 8
# Rows between which a reader can skip, by rule and version.
_ROW_GROUP_SIZE = 20_000


class SequencedTable:
    """One table, created when absent. Of its objects each is for one thread; commits of several come in some order."""

    def __init__(self, root: StorageRoot, spec: TableSpec) -> None:
        """Columns beside the event's time are texts."""
        self._name, columns = spec
        kinds = [
            ("ts", pa.timestamp("us", tz="UTC")),
            *((c, pa.string()) for c in ("eid", "rule", "version", *columns)),
        ]
        self._schema = pa.schema([*kinds, ("chunk", pa.int32())])
        self.storage = as_storage(root) / self._name
        self._log = DeltaLog(
            self.storage, "ts", open_or_create_table(self.storage, self._schema), self._name
        )

    @staticmethod
    def exists(root: StorageRoot, spec: TableSpec) -> bool:
        """Whether there is such a table."""
        return (as_storage(root) / spec[0]).has_table()

    @property
    def data_folder(self) -> Path:
        """The folder of this machine in which its files are, or copies of some of them."""
        return self.storage.data_folder

    def last_number(self) -> int:
        """The number of the last archived row, 0 for none, in the newest version, which this object sees then."""
        self._log.refresh()
        return self._log.sequence_number

    def append(self, rows: pa.Table, after: int, last: int) -> None:
        """Commit the rows with numbers beyond `after` up to `last`. Raises `Superseded` when the table's last is
        another."""
        rows = rows.select(self._schema.names).cast(self._schema)
        parts = [
            (part, rows.filter(pc.equal(rows["chunk"], part)))
            for part in pc.unique(rows["chunk"]).to_pylist()
        ]
        began = seconds_since_boot()
        files = [self._write_file(part, held, len(held) >= _FULL_FILE_ROWS) for part, held in parts]
        self._log.commit(
            "WRITE",
            files,
            (),
            int(time.time() * 1000),
            {},
            sequence_range=(after, last),
            started_at=began,
        )

    def data_files(self) -> list[DataFile]:
        """The files of the version that this object sees: each row once. Replaced files stay for a while."""
        return [
            file
            for chunk in self._log.files_by_chunk.values()
            for file in chunk.files_by_path.values()
        ]

    def read(self, rule: str | None = None, version: str | None = None) -> pa.Table:
        """The archived rows, or those of a rule's version."""
        self._log.refresh()
        files = self.data_files()
        self._fetch(files)
        parts = [self.read_file(file, rule, version) for file in files]
        return pa.concat_tables(parts) if parts else self._schema.empty_table()

    def _fetch(self, files: Sequence[DataFile]) -> None:
        self.storage.fetch([file.path for file in files])

    def read_file(
        self, file: DataFile, rule: str | None = None, version: str | None = None
    ) -> pa.Table:
        """The rows of one file, or those of a rule's version."""
        given = (("rule", "=", rule), ("version", "=", version))
        wanted = [one for one in given if one[2] is not None]
        rows = pq.read_table(
            self.storage.open_data_file(file.path), partitioning=None, filters=wanted or None
        )
        return cast_to_fields(
            rows.append_column("chunk", pa.repeat(pa.scalar(file.chunk), len(rows))),
            list(self._schema),
        )

    def compact(self) -> None:
        """Make one file of small ones, in each chunk where there are many. Raises `Superseded` where another did."""
        self._log.refresh()
        for chunk, held in list(self._log.files_by_chunk.items()):
            chosen = select_for_compaction(list(held.files_by_path.values()))
            if chosen:
                self._fetch(chosen)
                rows = pa.concat_tables([self.read_file(file) for file in chosen])
                began, written = seconds_since_boot(), self._write_file(chunk, rows, True)
                names = [file.path for file in chosen]
                self._log.commit(
                    "OPTIMIZE", [written], names, int(time.time() * 1000), {}, started_at=began
                )

    def _write_file(self, chunk: int, rows: pa.Table, sort: bool) -> DataFile:
        """A file that is not part of the table yet, lasting."""
        name = (
            f"chunk={chunk}/{CLUSTERED_PREFIX if sort else UNCLUSTERED_PREFIX}{uuid4().hex}.parquet"
        )
        rows = rows.drop_columns(["chunk"])
        if sort:
            rows = rows.sort_by([(key, "ascending") for key in ("rule", "version", "ts")])
        with self.storage.write_data_file(name) as path:
            pq.write_table(
                rows,
                path,
                compression="zstd",
                use_dictionary=["rule", "version", "key"],
                column_encoding={"ts": "DELTA_BINARY_PACKED"},
                write_statistics=["rule", "version", "ts"] if sort else False,
                row_group_size=_ROW_GROUP_SIZE if sort else max(len(rows), 1),
                store_schema=False,
            )
            size = path.stat().st_size
        ts = micros_column(rows, "ts")
        return DataFile(name, chunk, len(rows), size, int(ts.min()), int(ts.max()))

    def checkpoint(self) -> None:
        """When many commits have come: gather the log, so that opening the table stays fast."""
        self._log.checkpoint()

    def unreferenced_files(self) -> list[str]:
        """Files that are no part of the newest version: superseded, or never committed."""
        return self._log.unreferenced_files()


def should_commit(pending_rows: int, chunk_closed: bool, seconds_since_commit: float) -> bool:
    """Whether rows that wait to be archived are to be committed: many, or some of a closed chunk (`closed`), into which
    few more will come, some seconds (`paused`) after the last commit."""
    return pending_rows >= COMMIT_ROWS or (
        chunk_closed and seconds_since_commit >= _COMMIT_INTERVAL
    )


def select_for_compaction(files: Sequence[DataFile]) -> list[DataFile]:
    """Which files of a chunk become one: small ones, when there are many of about the same size, and all below that.

    Sizes grow by `_MANY`, so that a row is rewritten as often as there are sizes at most, and few files are left.
    """
    small = [(_size_class(file), file) for file in files if file.rows < _FULL_FILE_ROWS]
    many = [
        size
        for size, count in Counter(size for size, _ in small).items()
        if count >= _COMPACTION_FACTOR
    ]
    return [file for size, file in small if many and size <= max(many)]


def _size_class(file: DataFile) -> int:
    size = 0
    while file.rows >= _COMPACTION_FACTOR ** (size + 1):
        size += 1
    return size
