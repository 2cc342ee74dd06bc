"""One stream's Delta table, partitioned by chunk: appending, and which files hold which time.

Data and log files are lasting when an append returns.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Field

from archiver.clock import seconds_since_boot
from archiver.delta.data_files import cast_to_fields, write_rows
from archiver.delta.identity import ENTRY_DTYPE, build_entries, fingerprint
from archiver.delta.log import (
    CLUSTERED_PREFIX,
    UNCLUSTERED_PREFIX,
    ChunkFiles,
    DataFile,
    DeltaLog,
    open_or_create_table,
)
from archiver.delta.schema import APPEND_COLUMN, IDENTITY_COLUMNS, StreamSchema
from archiver.storage import StorageRoot, as_storage
from archiver.times import micros_column

# Under this name the log numbers appends.
_APPLICATION_ID = "appends"
# An append of so many rows to a chunk is clustered at once, and not written again.
_LARGE_APPEND = 50_000
# A clustered file is rewritten together with new ones that have at least one row for so many of its rows.
_MAX_REWRITE_RATIO = 4


class StreamTable:
    """The archive of one stream under `root`, created when absent. One process appends (see `moirae.runtime.roles`)."""

    def __init__(self, root: StorageRoot, schema: StreamSchema) -> None:
        self.schema = schema
        self.storage = as_storage(root) / "streams" / schema.name
        self._arrow_schema = schema.arrow_schema()
        table = open_or_create_table(self.storage, self._arrow_schema)
        known = {field.name for field in table.schema().fields}
        # Columns may have come since the table was made; old rows have no value in new ones.
        self._missing_columns = [
            Field.from_arrow(field) for field in self._arrow_schema if field.name not in known
        ]
        self._log = DeltaLog(self.storage, schema.time, table, _APPLICATION_ID)

    @staticmethod
    def exists(root: StorageRoot, stream: str) -> bool:
        """Whether the stream has a table."""
        return (as_storage(root) / "streams" / stream).has_table()

    @property
    def data_folder(self) -> Path:
        """The folder of this machine in which its files are, or copies of some of them."""
        return self.storage.data_folder

    def append(self, rows: pa.Table, batch: int) -> None:
        """Commit rows of the table's schema (but for their number) at once. `batch` is kept with the commit, for people
        who look."""
        if self._missing_columns:
            with self.storage.translate_errors():
                self.storage.open_table().alter.add_columns(self._missing_columns)
            self._missing_columns = []
        self._log.refresh()
        number, began = self.append_count + 1, seconds_since_boot()
        rows = self._with_append_number(rows, number)
        parts = [
            (part, rows.filter(pc.equal(rows["chunk"], part)))
            for part in pc.unique(rows["chunk"]).to_pylist()
        ]
        files = [
            self._write_file(part, held, len(held) >= _LARGE_APPEND, f"{number}-")
            for part, held in parts
        ]
        note = {"batch": str(batch)}
        self._log.commit(
            "WRITE",
            files,
            (),
            int(time.time() * 1000),
            note,
            sequence_range=(number - 1, number),
            started_at=began,
        )

    def _with_append_number(self, rows: pa.Table, number: int) -> pa.Table:
        if APPEND_COLUMN in rows.column_names:
            rows = rows.drop_columns([APPEND_COLUMN])
        rows = rows.append_column(
            APPEND_COLUMN, pa.repeat(pa.scalar(number, pa.int64()), len(rows))
        )
        return rows.select(self._arrow_schema.names).cast(self._arrow_schema)

    def replace_chunk(self, rows: pa.Table, chunk: int) -> None:
        """Commit rows of the table's schema as all that the chunk holds. Raises `Superseded` when it has changed since
        this began."""
        self._log.refresh()
        held = self._log.files_by_chunk.get(chunk)
        before = [] if held is None else list(held.files_by_path)
        rows, began = self._with_append_number(rows, 0), seconds_since_boot()
        files = [self._write_file(chunk, rows, True)] if len(rows) else []
        if files or before:
            self._log.commit(
                "WRITE",
                files,
                before,
                int(time.time() * 1000),
                {},
                replaced_chunk=chunk,
                started_at=began,
            )

    def _write_file(
        self, chunk: int, rows: pa.Table, clustered: bool, name_prefix: str = ""
    ) -> DataFile:
        """A file that is not part of the table yet, lasting; with some words in its name."""
        name = f"chunk={chunk}/{CLUSTERED_PREFIX if clustered else UNCLUSTERED_PREFIX}{name_prefix}{uuid4().hex}.parquet"
        rows = rows.drop_columns(["chunk"])
        with self.storage.write_data_file(name) as path:
            write_rows(self.schema, rows, path, clustered)
            size = path.stat().st_size
        ts = micros_column(rows, self.schema.time)
        return DataFile(name, chunk, len(rows), size, int(ts.min()), int(ts.max()))

    def refresh(self) -> None:
        """See what others (the clustering of closed chunks) have committed."""
        self._log.refresh()

    def local_paths(
        self, low: int | None = None, high: int | None = None, chunk: int | None = None
    ) -> list[str]:
        """Where on this machine the files are, or would be, that may hold event times in [low, high) (microseconds)
        and the chunk: to tell files apart."""
        return self.to_local_paths(self.data_files(low, high, chunk))

    def to_local_paths(self, files: Sequence[DataFile]) -> list[str]:
        """Where on this machine files are, or would be."""
        return [f"{self.data_folder}/{file.path}" for file in files]

    def lease_paths(self, files: Sequence[DataFile]) -> list[str]:
        """Paths of files, to be read by whatever reads files, within the time that a history query may take."""
        return self.storage.lease_paths([file.path for file in files])

    def data_files(
        self, low: int | None = None, high: int | None = None, chunk: int | None = None
    ) -> list[DataFile]:
        """The files that may hold event times in [low, high) (microseconds) and the chunk."""
        chunks = self._log.files_by_chunk
        known = (
            list(chunks.values()) if chunk is None else [chunks[chunk]] if chunk in chunks else []
        )
        return [
            file
            for one in known
            if one.overlaps(low, high)
            for file in one.files_by_path.values()
            if file.overlaps(low, high)
        ]

    def contains(self, path: str) -> bool:
        """Whether a file belongs to the version that this object sees."""
        return self._log.contains(path)

    def files_by_chunk(self) -> dict[int, ChunkFiles]:
        """What each chunk holds here."""
        return self._log.files_by_chunk

    def read(self, columns: Sequence[str], chunk: int | None = None) -> pa.Table:
        """The named columns of a chunk, or of all, in memory. `chunk` itself is not among the files' columns."""
        schema = pa.schema([self._arrow_schema.field(name) for name in columns])
        files = self.data_files(chunk=chunk)
        self.fetch(files)
        parts = [self.read_file(file.path, columns) for file in files]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def fetch(self, files: Sequence[DataFile]) -> None:
        """Have files on this machine that are to be read one after another."""
        self.storage.fetch([file.path for file in files])

    def read_file(self, path: str, columns: Sequence[str]) -> pa.Table:
        """The named columns of one file; what it lacks is null, or for the identity computed."""
        file = pq.ParquetFile(self.storage.open_data_file(path))
        known = set(file.schema_arrow.names)
        if set(IDENTITY_COLUMNS).intersection(columns) and not known.issuperset(IDENTITY_COLUMNS):
            return self._read_with_identities(path).select(list(columns))
        rows = file.read(columns=[name for name in columns if name in known])
        if APPEND_COLUMN in columns and APPEND_COLUMN not in known:
            number = pa.scalar(_append_number(path), pa.int64())
            rows = rows.append_column(APPEND_COLUMN, pa.repeat(number, file.metadata.num_rows))
        return cast_to_fields(rows, [self._arrow_schema.field(name) for name in columns])

    def _read_with_identities(self, path: str) -> pa.Table:
        """All columns of a file that was written without identities, with them."""
        named = [
            name for name in self._arrow_schema.names if name not in (*IDENTITY_COLUMNS, "chunk")
        ]
        rows = self.read_file(path, named)
        ids, hashes = fingerprint(self.schema, rows)
        rows = rows.append_column("_id", pa.array(ids, pa.binary())).append_column(
            "_hash", pa.array(hashes)
        )
        return rows.select([name for name in self._arrow_schema.names if name != "chunk"])

    def read_on_time(self, path: str, columns: Sequence[str]) -> pa.Table:
        """The named columns of one file's rows that did not come late, in memory."""
        rows = self.read_file(path, [*dict.fromkeys([*columns, "_late"])])
        return rows.filter(pc.invert(rows["_late"])).select(list(columns))

    def read_identities(self, chunk: int) -> np.ndarray[Any, Any]:
        """The identity index entries of a chunk (`archiver.delta.identity.ENTRY`)."""
        rows = self.read(["_id", "_hash", "_unit", "_line"], chunk)
        if not len(rows):
            return np.empty(0, dtype=ENTRY_DTYPE)
        return build_entries(
            rows["_id"].to_pylist(),
            *(rows[name].to_numpy() for name in ("_hash", "_unit", "_line")),
        )

    def count_unclustered(self, chunk: int) -> int:
        """Files of a chunk that are as they were appended."""
        held = self._log.files_by_chunk.get(chunk)
        return 0 if held is None else sum(_is_unclustered(path) for path in held.files_by_path)

    def cluster(self, chunk: int) -> None:
        """Rewrite the chunk's appended files as one, clustered by key and time, with statistics and identities.

        Rows stay as they are. Clustered files are left alone, but for those that are not much larger than the new
        one: there are few, and each row is rewritten a few times at most.
        """
        self._log.refresh()
        held = self._log.files_by_chunk.get(chunk)
        chosen = [] if held is None else select_for_clustering(list(held.files_by_path.values()))
        if not chosen:
            return
        names = [name for name in self._arrow_schema.names if name != "chunk"]
        self.fetch(chosen)
        rows = pa.concat_tables([self.read_file(file.path, names) for file in chosen])
        began = seconds_since_boot()
        written = self._write_file(
            chunk,
            rows.append_column("chunk", pa.repeat(pa.scalar(chunk, pa.int32()), len(rows))),
            True,
        )
        self._log.commit(
            "OPTIMIZE",
            [written],
            [file.path for file in chosen],
            int(time.time() * 1000),
            {},
            started_at=began,
        )

    def delete_chunk(self, chunk: int) -> None:
        """The chunk's files are no part of the table any more."""
        self._log.refresh()
        held = self._log.files_by_chunk.get(chunk)
        if held is not None:
            self._log.commit("DELETE", (), list(held.files_by_path), int(time.time() * 1000), {})

    def checkpoint(self) -> None:
        """When many commits have come: gather the log, so that opening the table stays fast."""
        self._log.checkpoint()

    def unreferenced_files(self) -> list[str]:
        """Files that are no part of the newest version: superseded, or never committed."""
        return self._log.unreferenced_files()

    def missing_files(self) -> list[str]:
        """Files of the version that this object sees which are not there."""
        return self._log.missing_files()

    @property
    def append_count(self) -> int:
        """How many appends there were in the version that this object sees. Nothing but an append adds rows, and none
        goes but with its chunk: the rows of the first so many appends are the table as it was then."""
        return self._log.sequence_number

    @property
    def version(self) -> int:
        """The Delta version that this object sees."""
        return self._log.version


def select_for_clustering(files: Sequence[DataFile]) -> list[DataFile]:
    """Which files of a chunk become one: all loose ones, and clustered ones while the result is not much smaller."""
    chosen = [file for file in files if _is_unclustered(file.path)]
    rows = sum(file.rows for file in chosen)
    for file in sorted((f for f in files if f not in chosen), key=lambda f: f.rows):
        if not chosen or file.rows > _MAX_REWRITE_RATIO * rows:
            break
        chosen.append(file)
        rows += file.rows
    return chosen


def _is_unclustered(path: str) -> bool:
    return not path.split("/", 1)[1].startswith(CLUSTERED_PREFIX)


def _append_number(path: str) -> int | None:
    """The append that a file is all of, by its name. 0: it came before these were counted; None: another program wrote
    it."""
    name = path.split("/", 1)[1]
    if not name.startswith((UNCLUSTERED_PREFIX, CLUSTERED_PREFIX)):
        return None
    _, *words, _ = name.split("-")
    return int(words[0]) if words else 0
