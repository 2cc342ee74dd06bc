"""The Delta table of one stream, partitioned by chunk: appends, reads, and clustering.

Data and log files are durable when an append returns.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from archiver.clock import seconds_since_boot
from archiver.delta.data_files import (
    NOTHING_SETTLED,
    SettledPlaces,
    TableFiles,
    append_number,
)
from archiver.delta.declarations import (
    DECLARATIONS_PROPERTY,
    StoredTable,
    compare_declaration,
    encode_declarations,
    rewritten_mark,
)
from archiver.delta.declared_table import APPENDS_APPLICATION_ID
from archiver.delta.erased_rows import ErasedRows
from archiver.delta.files import is_adopted, is_rewritten, is_unclustered
from archiver.delta.log import (
    ChunkFiles,
    DataFile,
    DeltaLog,
    open_or_create_delta_table,
)
from archiver.delta.protocol import NO_CHUNK
from archiver.delta.schema import APPEND_COLUMN, StreamSchema
from archiver.errors import CommitConflict, IncompatibleDeclaration, StorageFailed
from archiver.storage import StorageRoot, as_storage
from archiver.time_range import ALL_TIME, TimeRange

# A compact file is rewritten only with new files that have at least a fourth of its rows.
_MAX_REWRITE_RATIO = 4

_FIRST = -(1 << 63)  # microseconds, before all times
_END = 1 << 63  # after all times


RewriteFunction = Callable[[TableFiles, int, Sequence[DataFile], SettledPlaces], DataFile]
"""Writes the rows of files of a chunk as one, see `TableFiles.write_compact`."""


class StreamTable:
    """The archive of one stream below `root`, created if it is absent.

    Only one process may append (see `moirae.runtime.roles`).
    """

    def __init__(self, root: StorageRoot, schema: StreamSchema) -> None:
        self.storage = as_storage(root) / "streams" / schema.table_name
        table = open_or_create_delta_table(
            self.storage,
            schema.arrow_schema(),
            {DECLARATIONS_PROPERTY: encode_declarations(schema)},
        )
        self._log = DeltaLog(self.storage, schema.time, table, APPENDS_APPLICATION_ID)
        self._last_append: int | None = None
        self._erased = ErasedRows()
        self._compare_declaration(schema)

    def _compare_declaration(self, schema: StreamSchema) -> None:
        """Compare the declaration with the known version. Raises `IncompatibleDeclaration`."""
        metadata = self._compared_metadata = self._log.metadata
        stored = StoredTable(
            metadata.column_types,
            metadata.properties.get(DECLARATIONS_PROPERTY),
            self.append_count,
            is_empty=not self._log.files_by_chunk,
            newest=max((files.newest for files in self._log.files_by_chunk.values()), default=None),
        )
        self.declaration = compare_declaration(schema, stored)
        if self.declaration.problems:
            messages = [problem.message for problem in self.declaration.problems]
            raise IncompatibleDeclaration(f"stream {schema.name}: {'; '.join(messages)}")
        self.schema = self.declaration.schema
        self.files = TableFiles(self.schema, self.storage, self._erased)

    def set_erased(self, erased: ErasedRows) -> None:
        """Set which rows were erased: who brings them again brings duplicates."""
        self._erased = erased
        self.files = TableFiles(self.schema, self.storage, erased)

    @property
    def is_rewriting(self) -> bool:
        """Whether files have to be rewritten before rows can be appended."""
        return bool(self.declaration.changes.rewritten)

    @staticmethod
    def exists(root: StorageRoot, stream: str) -> bool:
        """Whether the stream has a table."""
        return (as_storage(root) / "streams" / stream).has_table()

    @property
    def data_folder(self) -> Path:
        """The local folder with the data files, or with cached copies of some of them."""
        return self.storage.data_folder

    def append(self, rows: pa.Table, batch: int) -> Sequence[DataFile]:
        """Commit rows, of the table's schema except `_append`, as one append. Returns its files.

        `batch` is only recorded in the commit, as information.
        """
        number = self.start_append()
        started_at = seconds_since_boot()
        files = self.files.write_append(rows, number)
        self.commit_append(files, number, batch, started_at)
        return files

    def start_append(self) -> int:
        """Return the number of the next append. The declaration takes over, see `declare`.

        Raises `CommitConflict` if another process has appended since `continue_appends`: one that
        was frozen between its fence and its commit, for example. Its rows are not counted yet.
        """
        self.declare()
        self._log.refresh()
        if self._last_append not in (None, self.append_count):
            raise CommitConflict(
                f"{self.storage}: another process has appended rows; this one has to start again"
            )
        return self.append_count + 1

    def continue_appends(self) -> None:
        """Append after what is known now: its rows are counted. See `start_append`."""
        self._last_append = self.append_count

    def declare(self) -> None:
        """Record the declaration, and add new columns to the table: they are null in older rows.

        Raises `IncompatibleDeclaration` if files have to be rewritten before.
        """
        if self.declaration.is_recorded:
            return
        self.refresh()
        if self.is_rewriting:
            columns = ", ".join(self.declaration.changes.rewritten)
            raise IncompatibleDeclaration(
                f"stream {self.schema.name}: its files are not rewritten yet for {columns}"
            )
        dropped: Sequence[str] = ()
        if not self._log.files_by_chunk:
            stored_columns = self._log.metadata.column_types
            dropped = list(stored_columns.keys() - set(self.files.arrow_schema.names))
        self._log.replace_columns(
            self.files.arrow_schema,
            {DECLARATIONS_PROPERTY: encode_declarations(self.schema)},
            dropped=dropped,
        )
        self._compare_declaration(self.schema)

    def commit_append(
        self, files: Sequence[DataFile], number: int, batch: int, started_at: float
    ) -> None:
        """Commit files as an append. `number`: as `start_append` returned it.

        `started_at`: when the first file was started, in seconds of `archiver.clock`. Raises
        `CommitConflict` if another append was committed meanwhile, and `StorageFailed` if a file is
        gone.
        """
        for file in files:
            if not self.storage.exists(file.path):
                raise StorageFailed(
                    f"{self.storage}: {file.path} was deleted before its commit, so nothing was "
                    "committed: the batch is read again"
                )
        self._log.commit(
            "WRITE",
            add=files,
            user_metadata={"append": number, "batch": batch},
            sequence_range=(number - 1, number),
            started_at=started_at,
        )
        if self._last_append is not None:
            self._last_append = number

    def replace_chunk(self, write: Callable[[], Sequence[DataFile]], chunk: int) -> None:
        """Commit files as the whole content of a chunk. `write` writes them.

        Raises `CommitConflict` when the chunk changes meanwhile.
        """
        self._log.refresh()
        replaced_files = self._files_of_chunk(chunk)
        started_at = seconds_since_boot()
        files = write()
        if files or replaced_files:
            self._log.commit(
                "WRITE",
                add=files,
                remove=replaced_files,
                replaced_chunk=chunk,
                started_at=started_at,
            )

    def refresh(self) -> None:
        """Read commits of other processes, such as the clustering of closed chunks.

        Raises `IncompatibleDeclaration` if another process changed the columns to others.
        """
        self._log.refresh()
        if self._log.metadata is self._compared_metadata:
            return
        was_rewriting = self.is_rewriting
        self._compare_declaration(self.schema)
        if self.is_rewriting and not was_rewriting:
            raise IncompatibleDeclaration(
                f"stream {self.schema.name}: another process has changed its columns: restart"
            )

    def local_paths(self, time_range: TimeRange = ALL_TIME, chunk: int | None = None) -> list[str]:
        """Like `data_files`, as local paths. They identify files, which need not be present."""
        return self.to_local_paths(self.data_files(time_range, chunk))

    def to_local_paths(self, files: Sequence[DataFile]) -> list[str]:
        """Return the local paths of files, which need not be present."""
        return [f"{self.data_folder}/{file.path}" for file in files]

    def lease_paths(self, files: Sequence[DataFile]) -> list[str]:
        """Return local paths of files, present for as long as a history query may take."""
        return self.storage.lease_paths([file.path for file in files])

    def data_files(
        self, time_range: TimeRange = ALL_TIME, chunk: int | None = None
    ) -> list[DataFile]:
        """List files, of one chunk or all, that may hold event times in a range."""
        if time_range.is_empty:
            return []
        chunks = list(self._log.files_by_chunk) if chunk is None else [chunk]
        first = _FIRST if time_range.start is None else time_range.start
        end = _END if time_range.end is None else time_range.end
        files: list[DataFile] = []
        for chunk_number in chunks:
            chunk_files = self._log.files_by_chunk.get(chunk_number)
            if chunk_files is None or chunk_files.newest < first or chunk_files.oldest >= end:
                continue
            candidates = chunk_files.files_by_path.values()
            if first <= chunk_files.oldest and chunk_files.newest < end:
                files.extend(candidates)
            else:
                files.extend(file for file in candidates if file.overlaps(time_range))
        return files

    def _files_of_chunk(self, chunk: int) -> list[DataFile]:
        chunk_files = self._log.files_by_chunk.get(chunk)
        return [] if chunk_files is None else list(chunk_files.files_by_path.values())

    def contains(self, path: str) -> bool:
        """Whether a file belongs to the known version."""
        return self._log.contains(path)

    def files_by_chunk(self) -> dict[int, ChunkFiles]:
        """The files of each chunk."""
        return self._log.files_by_chunk

    def read(self, columns: Sequence[str], chunk: int | None = None) -> pa.Table:
        """Read columns of a chunk, or of all, into memory. The column `chunk` cannot be read."""
        files = self.data_files(chunk=chunk)
        self.fetch(files)
        if not files:
            return pa.schema(self.files.fields(columns)).empty_table()
        return self._read_files(files, columns)

    def _read_files(self, files: Sequence[DataFile], columns: Sequence[str]) -> pa.Table:
        return pa.concat_tables([self.read_file(file.path, columns) for file in files])

    def fetch(self, files: Sequence[DataFile]) -> None:
        """Download files in parallel before they are read one by one."""
        self.storage.fetch([file.path for file in files])

    def read_accounted(self, columns: Sequence[str], chunk: int) -> pa.Table:
        """Read columns of the rows of a chunk that the ledger counts: not those of other programs.

        Rows of another program without a source unit may be in one file with archived rows, when
        another program has rewritten both.
        """
        files = self.accounted_files(chunk)
        self.fetch(files)
        all_columns = list(dict.fromkeys([*columns, "_unit"]))
        parts = [pa.schema(self.files.fields(columns)).empty_table()]
        for file in files:
            rows = self.read_file(file.path, all_columns)
            parts.append(rows.filter(pc.is_valid(rows["_unit"])).select(list(columns)))
        return pa.concat_tables(parts)

    def accounted_files(
        self, chunk: int | None = None, *, time_range: TimeRange = ALL_TIME
    ) -> list[DataFile]:
        """The files of `data_files`, except those appended by other programs."""
        return [file for file in self.data_files(time_range, chunk) if not file.is_foreign]

    def foreign_files(self) -> list[DataFile]:
        """List the files of rows that other programs appended."""
        return [file for file in self.data_files() if file.is_foreign]

    def read_file(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Read columns of one file. Columns that it lacks are null; identities are computed."""
        return self.files.read(path, columns)

    def read_appended_since(self, number: int, columns: Sequence[str]) -> pa.Table:
        """Read columns of the rows of source units that were appended after append `number`.

        Of as few files as the log tells. Raises `DataFileDamaged`.
        """
        try:
            paths = self._log.added_since(number)
        except FileNotFoundError:
            paths = [file.path for file in self.accounted_files()]
        all_columns = list(dict.fromkeys([*columns, "_unit", APPEND_COLUMN]))
        parts = [pa.schema(self.files.fields(columns)).empty_table()]
        for path in paths:
            if not self._log.is_foreign(path):
                rows = self.files.read_checked(path, all_columns)
                is_counted = pc.and_(
                    pc.is_valid(rows["_unit"]), pc.greater(rows[APPEND_COLUMN], number)
                )
                parts.append(rows.filter(is_counted).select(list(columns)))
        return pa.concat_tables(parts)

    def newest_append(self, path: str) -> int:
        """The highest append number among the rows of a file; 0: it has none."""
        number = append_number(path)
        if number:
            return number
        numbers = self.files.read(path, [APPEND_COLUMN])[APPEND_COLUMN]
        return pc.max(numbers).as_py() or 0

    def read_on_time(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Read columns of the rows of one file that were not late: none of other programs."""
        if self._log.is_foreign(path):
            return pa.schema(self.files.fields(columns)).empty_table()
        return self.files.read_on_time(path, columns)

    def read_identities(
        self, chunk: int, *, is_included: Callable[[str], bool] = lambda path: True
    ) -> Mapping[int, np.ndarray[Any, Any]]:
        """Read the identity index entries of a chunk, see `TableFiles.read_identities`.

        `is_included`: whether a file is read, by its path.
        """
        files = [file for file in self.accounted_files(chunk) if is_included(file.path)]
        self.fetch(files)
        return self.files.read_identities([file.path for file in files])

    def count_unclustered(self, chunk: int) -> int:
        """Count the files of a chunk that have not been clustered."""
        return sum(is_unclustered(file.path) for file in self.accounted_files(chunk))

    def cluster(
        self,
        chunk: int,
        rewrite: RewriteFunction = TableFiles.write_compact,
        settled_places: SettledPlaces = NOTHING_SETTLED,
    ) -> None:
        """Rewrite files of a closed chunk as one, sorted, with statistics, see `write_compact`.

        Rows do not change. Of compact files only those are rewritten that are not much larger than
        the new one: few files remain, and each row is rewritten a few times at most. `rewrite`:
        writes them as one file. Raises `CommitConflict` and `RowsLost`.
        """
        self.refresh()
        files = select_for_clustering(
            self.accounted_files(chunk),
            lambda file: self.files.is_small(file.path, settled_places),
        )
        if not files or self.is_rewriting:
            return
        started_at = seconds_since_boot()
        compact_file = rewrite(self.files, chunk, files, settled_places)
        self._log.commit("OPTIMIZE", add=[compact_file], remove=files, started_at=started_at)

    def erase(
        self, select: Callable[[DataFile], np.ndarray[Any, Any]], files: Sequence[DataFile]
    ) -> int:
        """Rewrite files without some of their rows, one by one; return the number of these rows.

        `select`: returns which rows of a file are erased. Derived nodes, which name the files that
        they were computed from, end with the same commit. A file that another process has replaced
        meanwhile is left out: it is listed again by `data_files`. Raises `RowsLost`.
        """
        erased = 0
        for file in files:
            if not self.contains(file.path):
                continue
            is_erased = select(file)
            if not is_erased.any():
                continue
            started_at = seconds_since_boot()
            remaining = self.files.write_remaining(file, is_erased)
            try:
                self._log.commit(
                    "DELETE",
                    add=[] if remaining is None else [remaining],
                    remove=[file],
                    started_at=started_at,
                )
            except CommitConflict:
                if remaining is not None:
                    self.storage.remove(remaining.path)
                continue
            erased += int(is_erased.sum())
        return erased

    def purge(self) -> None:
        """Remove all that the newest version does not need: superseded files, and earlier commits.

        Only while no other process reads or writes the table.
        """
        self._log.purge()

    def adopt_foreign_files(self) -> None:
        """Rewrite files that other programs appended, with the columns of the archive null.

        Their name then says whose rows they are, whatever their columns said, and they have
        statistics. Columns that were not declared stay. Raises `CommitConflict`.
        """
        self.refresh()
        if self.is_rewriting:
            return
        files_by_chunk: dict[int, list[DataFile]] = {}
        for file in self.foreign_files():
            if not is_adopted(file.path) and file.chunk != NO_CHUNK:
                files_by_chunk.setdefault(file.chunk, []).append(file)
        for chunk, files in files_by_chunk.items():
            self._adopt(chunk, files)

    def _adopt(self, chunk: int, files: Sequence[DataFile]) -> None:
        started_at = seconds_since_boot()
        adopted = self.files.write_adopted(chunk, files)
        self._log.commit(
            "OPTIMIZE",
            add=[adopted],
            remove=files,
            user_metadata={"adopted": "rows appended by another program"},
            started_at=started_at,
        )

    def replace_columns(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        unchanged: Collection[str],
    ) -> None:
        """Commit the declared columns with the files that were rewritten for them.

        `unchanged`: the paths of all files that need not be rewritten. Raises `CommitConflict` if
        a removed file is gone, or there is any other file.
        """
        changes = self.declaration.changes
        self._log.replace_columns(
            self.files.arrow_schema,
            {DECLARATIONS_PROPERTY: encode_declarations(self.schema)},
            dropped=list(changes.renamed.values()),
            add=add,
            remove=remove,
            unchanged=unchanged,
        )
        self._compare_declaration(self.schema)

    def set_history(self, history: float) -> None:
        """Set how many seconds superseded versions stay readable, and upgrade an older table."""
        self._log.set_history(history)

    def history_bytes(self, history: float) -> int:
        """The size of the files that only versions of the last `history` seconds need."""
        return self._log.history_bytes(history)

    def delete_chunk(self, chunk: int) -> None:
        """Remove the files of a chunk from the table. `Vacuum` deletes them later."""
        self._log.refresh()
        files = self._files_of_chunk(chunk)
        if files:
            self._log.commit("DELETE", remove=files)

    def checkpoint(self) -> None:
        """Write a checkpoint of the log if many commits were made since the last."""
        self._log.checkpoint()

    def unreferenced_files(self, history: float = 0.0) -> list[str]:
        """List files that are no part of a version of the last `history` seconds.

        Files of the append that comes next are not listed, however long it takes: the process that
        appends may be about to commit them. If it was killed, they are listed after the next append.
        Nor are those that are rewritten for the declared columns until they are committed.
        """
        files = self._log.unreferenced_files(history)
        files = [path for path in files if (append_number(path) or 0) <= self.append_count]
        self.refresh()
        if self.is_rewriting:
            mark = rewritten_mark(self.schema)
            files = [path for path in files if not is_rewritten(path, mark)]
        return files

    def forget_files(self, paths: Collection[str]) -> None:
        """Forget unreferenced files, which were deleted."""
        self._log.forget_files(paths)

    @property
    def append_count(self) -> int:
        """Number of appends up to the known version.

        Only appends add rows, and rows are removed only with their chunk: the rows of the first n
        appends are the table as it was after n appends.
        """
        return self._log.sequence_number

    @property
    def version(self) -> int:
        """The known Delta version."""
        return self._log.version


def select_for_clustering(
    files: Sequence[DataFile], is_small: Callable[[DataFile], bool]
) -> list[DataFile]:
    """Select the files of a chunk to rewrite as one.

    These are all that can be smaller, and others, smallest first, while they have at most
    `_MAX_REWRITE_RATIO` times the rows selected so far. `is_small`: see `TableFiles.is_small`.
    """
    selected: list[DataFile] = []
    compact: list[DataFile] = []
    for file in files:
        if is_small(file):
            compact.append(file)
        else:
            selected.append(file)
    if not selected:
        return []
    rows = sum(file.rows for file in selected)
    for file in sorted(compact, key=lambda file: file.rows):
        if file.rows > _MAX_REWRITE_RATIO * rows:
            break
        selected.append(file)
        rows += file.rows
    return selected
