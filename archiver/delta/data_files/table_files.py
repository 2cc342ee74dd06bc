"""The data files of a stream's table: reading and writing them, without the table's log.

Executors write files of a batch with it; the process that appends commits them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from archiver.delta.data_files.identities import (
    compute_identities,
    declarations_of,
    keep_other_identities,
    needed_columns,
)
from archiver.delta.data_files.rows import (
    Layout,
    cast_to_fields,
    count_place_bytes,
    read_file_schema,
    read_kept_places,
    split_by_chunk,
    stores_some_identities,
    write_rows,
)
from archiver.delta.data_files.settled_places import NOTHING_SETTLED, SettledPlaces
from archiver.delta.declarations import differs_by_redaction
from archiver.delta.digests import compute_digest
from archiver.delta.erased_rows import NOTHING_ERASED, ErasedRows
from archiver.delta.files import (
    ADOPTED_PREFIX,
    CLUSTERED_PREFIX,
    COMPACT_MARK,
    UNCLUSTERED_PREFIX,
    DataFile,
    is_compact,
    is_unclustered,
    is_written_by_moirae,
)
from archiver.delta.identity import (
    NO_LINE,
    Array,
    build_entries,
    fingerprint,
    identify_places,
)
from archiver.delta.row_ids import RowIds, sum_row_ids
from archiver.delta.schema import (
    APPEND_COLUMN,
    EXTRA_COLUMN,
    IDENTITY_COLUMNS,
    LINE_COLUMN,
    UNIT_COLUMN,
    StreamSchema,
)
from archiver.errors import DataFileDamaged, RowsLost
from archiver.formats import redact_table
from archiver.storage import Storage
from archiver.times import micros_column

# Rows of a chunk in one file from which it is clustered at once, and not rewritten later.
_LARGE_APPEND = 50_000


Mask = npt.NDArray[np.bool_]


class IdentifiableRows(NamedTuple):
    """Rows with the columns that their identities take. `schema`: with their declarations."""

    rows: pa.Table
    schema: StreamSchema


class TableFiles:
    """Data files of the table of one stream. `storage`: the folder of the table.

    It can be sent to other processes. `erased`: rows that were erased from the table, as far as they
    were loaded.
    """

    def __init__(
        self, schema: StreamSchema, storage: Storage, erased: ErasedRows = NOTHING_ERASED
    ) -> None:
        self.schema = schema
        self.storage = storage
        self.erased = erased
        self.arrow_schema = schema.arrow_schema()
        # All but the partition, which is not stored in files.
        self.stored_columns = [name for name in self.arrow_schema.names if name != "chunk"]

    def write_append(self, rows: pa.Table, number: int) -> list[DataFile]:
        """Write the rows of an append, one file for each chunk.

        `rows`: of the table's schema except `_append`. The files are durable, but no part of the
        table before their commit.
        """
        files: list[DataFile] = []
        for chunk, part in list(split_by_chunk(self._with_append_number(rows, number))):
            ids = sum_row_ids(part).tag
            if not self.schema.is_identified_by_place:
                part = part.drop_columns(IDENTITY_COLUMNS)
            layout: Layout = "arrived"
            prefix = UNCLUSTERED_PREFIX
            if len(part) >= _LARGE_APPEND:
                layout, prefix = "sorted", CLUSTERED_PREFIX
            path = f"chunk={chunk}/{prefix}{number}-{uuid4().hex}.parquet"
            files.append(replace(self._write(path, chunk, part, layout), ids=ids))
        return files

    def _with_append_number(self, rows: pa.Table, number: int) -> pa.Table:
        """Set the append number of rows, and cast them to the table's schema."""
        rows = rows.select([name for name in rows.column_names if name != APPEND_COLUMN])
        numbers = pa.repeat(pa.scalar(number, pa.int64()), len(rows))
        rows = rows.append_column(APPEND_COLUMN, numbers)
        return rows.select(self.arrow_schema.names).cast(self.arrow_schema)

    def write_derived(self, chunk: int, rows: pa.Table) -> DataFile:
        """Write rows of a chunk of a derived stream: they have no identity, and no place."""
        zeros = pa.repeat(pa.scalar(0, pa.int64()), len(rows))
        added = {
            EXTRA_COLUMN: pa.nulls(len(rows), pa.string()),
            "_late": pa.repeat(pa.scalar(False), len(rows)),
            UNIT_COLUMN: zeros,
            APPEND_COLUMN: zeros,
        }
        for name, values in added.items():
            rows = rows.append_column(name, values)
        names = [name for name in self.stored_columns if name in rows.column_names]
        rows = cast_to_fields(rows, self.fields(names))
        return self._write(self._compact_path(chunk, is_complete=True), chunk, rows, "compact")

    def write_compact(
        self, chunk: int, files: Sequence[DataFile], settled_places: SettledPlaces = NOTHING_SETTLED
    ) -> DataFile:
        """Write the rows of files of a chunk as one file with what cannot be computed.

        `settled_places`: which rows do not need their lines any more. The new file is read back: raises
        `RowsLost` if the identities of its rows are not those of the rows that were read.
        """
        ids = RowIds.sum(self._find_row_ids(file) for file in files)
        rows = keep_other_identities(self.schema, self._read_stored(files))
        if not self.schema.is_identified_by_place:
            rows = settled_places.forget_lines(rows)
        is_complete = self.schema.is_identified_by_place or not _has_values(rows, LINE_COLUMN)
        path = self._compact_path(chunk, is_complete)
        file = self._write(path, chunk, rows, "compact")
        self._check_row_ids(path, chunk, ids)
        return replace(file, ids=ids.tag)

    def _check_row_ids(self, path: str, chunk: int, ids: RowIds) -> None:
        """Read a new file back. Raises `RowsLost`."""
        if self.read_row_ids(path) != ids:
            self.storage.remove(path)
            raise RowsLost(
                f"{self.storage}: the rows of chunk {chunk} are not the same in one file: the files "
                "stay as they are; run `moirae doctor`"
            )

    def write_remaining(self, file: DataFile, is_erased: Mask) -> DataFile | None:
        """Write the rows of a file without some, as one file; None: none remain.

        `is_erased`: of its rows, in order. Raises `RowsLost` as `write_compact` does.
        """
        if is_erased.all():
            return None
        remains = pa.array(~is_erased)
        if file.is_foreign:
            path = f"chunk={file.chunk}/{ADOPTED_PREFIX}{uuid4().hex}.parquet"
            rows = self.read_adopted([file]).filter(remains)
            written = self._write(path, file.chunk, rows, "compact", has_times=False)
            return replace(written, oldest=file.oldest, newest=file.newest, is_foreign=True)
        ids = sum_row_ids(self.read(file.path, ["_id", "_unit"]).filter(remains))
        rows = keep_other_identities(self.schema, self._read_stored([file]).filter(remains))
        path = self._compact_path(file.chunk, is_complete=False)
        written = self._write(path, file.chunk, rows, "compact")
        self._check_row_ids(path, file.chunk, ids)
        return replace(written, ids=ids.tag)

    def is_small(self, path: str, settled_places: SettledPlaces) -> bool:
        """Whether a clustered file cannot be written in less space now.

        It is compact, or rows need their lines as they did when it was written.
        """
        if is_compact(path):
            return True
        if is_unclustered(path) or not is_written_by_moirae(path):
            return False
        try:
            kept_places = read_kept_places(pq.ParquetFile(self.storage.open_data_file(path)))
        except (OSError, pa.ArrowException):
            return False  # who rewrites it says what is wrong
        return kept_places is not None and not settled_places.settles(kept_places)

    def _find_row_ids(self, file: DataFile) -> RowIds:
        return self.read_row_ids(file.path) if file.ids is None else RowIds.parse_tag(file.ids)

    def _compact_path(self, chunk: int, is_complete: bool) -> str:
        mark = COMPACT_MARK if is_complete else ""
        return f"chunk={chunk}/{CLUSTERED_PREFIX}{mark}{uuid4().hex}.parquet"

    def write_adopted(self, chunk: int, files: Sequence[DataFile]) -> DataFile:
        """Write rows of other programs as one file, with the columns of the archive null."""
        path = f"chunk={chunk}/{ADOPTED_PREFIX}{uuid4().hex}.parquet"
        file = self._write(path, chunk, self.read_adopted(files), "compact", has_times=False)
        return replace(
            file,
            oldest=min(file.oldest for file in files),
            newest=max(file.newest for file in files),
            is_foreign=True,
        )

    def write_rewritten(self, path: str, files: Sequence[DataFile]) -> None:
        """Write the rows of files as they are declared now, unless it was killed: then nothing."""
        if files[0].is_foreign:
            rows = self.read_adopted(files)
        else:
            rows = keep_other_identities(self.schema, self.read_together(files))
        with self.storage.write_whole_file(path) as local_path:
            write_rows(self.schema, rows, local_path, "compact")

    def _write(
        self, path: str, chunk: int, rows: pa.Table, layout: Layout, *, has_times: bool = True
    ) -> DataFile:
        """Write a data file. It is durable, but no part of the table before its commit."""
        rows = rows.select([name for name in rows.column_names if name != "chunk"])
        with self.storage.write_data_file(path) as local_path:
            write_rows(self.schema, rows, local_path, layout)
            size = local_path.stat().st_size
            digest = compute_digest(local_path)
            place_bytes = count_place_bytes(local_path, self.schema.columns)
        oldest = newest = 0
        if has_times:
            ts = micros_column(rows, self.schema.time)
            oldest, newest = int(ts.min()), int(ts.max())
        return DataFile(
            path,
            chunk,
            len(rows),
            size,
            oldest,
            newest,
            digest=digest,
            place_bytes=place_bytes,
        )

    def _read_stored(self, files: Sequence[DataFile]) -> pa.Table:
        """All columns of files; identities that they do not store are NULL."""
        self.storage.fetch([file.path for file in files])
        parts = [
            self._read_all(file.path, self.stored_columns, computes_identities=False)
            for file in files
        ]
        return pa.concat_tables(parts, promote_options="default")

    def read_together(self, files: Sequence[DataFile]) -> pa.Table:
        """All columns of files, with those that are not declared any more."""
        self.storage.fetch([file.path for file in files])
        parts = [self._read_all(file.path, self.stored_columns) for file in files]
        return pa.concat_tables(parts, promote_options="default")

    def read_adopted(self, files: Sequence[DataFile]) -> pa.Table:
        """The rows of files of other programs, with the columns of the archive null."""
        self.storage.fetch([file.path for file in files])
        parts = [self._read_all(file.path, list(self.schema.columns)) for file in files]
        rows = pa.concat_tables(parts, promote_options="default")
        stored_rows = cast_to_fields(
            rows.select(list(self.schema.columns)), self.fields(self.stored_columns)
        )
        for name in rows.column_names:
            if name not in self.arrow_schema.names:
                stored_rows = stored_rows.append_column(name, rows[name])
        return stored_rows

    def fields(self, columns: Sequence[str]) -> list[pa.Field]:
        """The fields of some columns."""
        return list(map(self.arrow_schema.field, columns))

    def read(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Read columns of one file. Columns that it lacks are null; identities are computed.

        A file without identities has the columns of the declaration of its rows: they are computed
        of these.
        """
        file = pq.ParquetFile(self.storage.open_data_file(path))
        stored = set(file.schema_arrow.names)
        names = [name for name in IDENTITY_COLUMNS if name in columns]
        if names and not _stores_identities(file, path):
            return self._read_with_identities(path, file, columns, names)
        return self._select(_read_columns(file, self._stored_names(columns, stored)), path, columns)

    def _stored_names(self, columns: Iterable[str], stored: Collection[str]) -> set[str]:
        return {self.stored_name(name, stored) for name in columns}

    def _select(self, rows: pa.Table, path: str, columns: Sequence[str]) -> pa.Table:
        """Columns of rows as a file stores them."""
        if APPEND_COLUMN in columns:
            rows = _with_append_number(rows, path)
        stored = set(rows.column_names)
        # A file that is not rewritten yet stores a renamed column under its name before.
        stored_names = {name: self.stored_name(name, stored) for name in columns}
        present = [name for name in columns if stored_names[name] in stored]
        rows = rows.select([stored_names[name] for name in present]).rename_columns(present)
        return cast_to_fields(rows, self.fields(columns))

    def stored_name(self, column: str, stored: Collection[str]) -> str:
        """The name under which a file with some columns stores a column, if it does."""
        if column in stored:
            return column
        return self.schema.was.get(column, column)

    def _read_all(
        self, path: str, columns: Sequence[str], *, computes_identities: bool = True
    ) -> pa.Table:
        """Read columns of a file, and those that are not declared any more, or never were."""
        file = pq.ParquetFile(self.storage.open_data_file(path))
        stored = file.schema_arrow.names
        if computes_identities:
            rows = self.read(path, columns)
        else:
            rows = _read_columns(file, self._stored_names(columns, stored))
            rows = self._select(rows, path, columns)
        read_names = {self.stored_name(name, stored) for name in self.arrow_schema.names}
        removed = [name for name in stored if name not in read_names]
        if removed:
            removed_columns = file.read(columns=removed)
            for name in removed_columns.column_names:
                rows = rows.append_column(name, removed_columns[name])
        return rows

    def _read_with_identities(
        self, path: str, file: pq.ParquetFile, columns: Sequence[str], names: Sequence[str]
    ) -> pa.Table:
        """Read columns of a file that lacks some identities, and compute these."""
        schema = read_file_schema(file, self.schema) or self.schema
        stored = set(file.schema_arrow.names)
        needed = needed_columns(schema, names) | self._stored_names(columns, stored)
        rows = _with_append_number(_read_columns(file, needed), path)
        identities = compute_identities(schema, rows, names)
        rows = rows.select([name for name in rows.column_names if name not in names])
        for name in names:
            rows = rows.append_column(name, identities[name])
        return self._select(rows, path, columns)

    def read_on_time(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Read columns of the rows of one file that were not late."""
        rows = self.read(path, [*dict.fromkeys([*columns, "_late"])])
        return rows.filter(pc.invert(rows["_late"])).select(list(columns))

    def read_row_ids(self, path: str) -> RowIds:
        """The identities of the rows of a file, without those that other programs appended."""
        return sum_row_ids(self.read(path, ["_id", "_unit"]))

    def read_identities(self, paths: Sequence[str]) -> Mapping[int, Array]:
        """Read the identity index entries of files (`archiver.delta.identity.ENTRY_DTYPE`).

        By declaration, see `StreamSchema.declaration_numbers`. Raises `DataFileDamaged`.
        """
        columns = self._entry_columns()
        parts = [self.read_checked(path, columns) for path in paths]
        return self._build_entries(pa.concat_tables(parts)) if parts else {}

    def read_for_identities(self, path: str) -> IdentifiableRows:
        """Rows of a file with what index entries of some of them take, and their event times.

        Raises `DataFileDamaged`.
        """
        with self._naming_damage(path):
            file = pq.ParquetFile(self.storage.open_data_file(path))
            schema = read_file_schema(file, self.schema) or self.schema
            stored = file.schema_arrow.names
            names = self._stored_names([*self._entry_columns(), schema.time], stored)
            if not _stores_identities(file, path):
                names |= needed_columns(schema, IDENTITY_COLUMNS)
            rows = _with_append_number(_read_columns(file, names), path)
            return IdentifiableRows(rows, schema)

    def compute_entries(self, rows: pa.Table, schema: StreamSchema) -> Mapping[int, Array]:
        """Index entries of some of the rows of `read_for_identities`, see `read_identities`."""
        identities = compute_identities(schema, rows)
        rows = rows.select([name for name in rows.column_names if name not in IDENTITY_COLUMNS])
        for name, values in identities.items():
            rows = rows.append_column(name, values)
        return self._build_entries(self._select(rows, "", self._entry_columns()))

    def _build_entries(self, rows: pa.Table) -> Mapping[int, Array]:
        # Rows of other programs have no source unit.
        rows = rows.filter(pc.is_valid(rows["_unit"]))
        entries = build_entries(
            rows["_id"].to_pylist(),
            hashes=rows["_hash"].to_numpy(),
            units=rows["_unit"].to_numpy(),
            lines=pc.fill_null(rows["_line"], NO_LINE).to_numpy(),
        )
        if not self.schema.earlier:
            return {0: entries}
        numbers = declarations_of(self.schema, rows)
        entries_by_number = {
            number: entries[numbers == number] for number in np.unique(numbers).tolist()
        }
        redacted = [self._redact_entries(rows, entries, numbers)]
        present = len(self.schema.earlier)
        if present in entries_by_number:
            redacted.append(entries_by_number[present])
        if any(map(len, redacted)):
            entries_by_number[present] = np.concatenate(redacted)
        return entries_by_number

    def _redact_entries(self, rows: pa.Table, entries: Array, numbers: Array) -> Array:
        """The entries that rows from before a change of redactions would have now.

        A record that was redacted before it came here cannot be read as it was then.
        """
        is_redacted = np.isin(numbers, self._numbers_with_other_redactions())
        if not is_redacted.any():
            return entries[:0]
        redacted = redact_table(rows.filter(pa.array(is_redacted)), self.schema.redactions)
        own = entries[is_redacted]
        place_ids = own["id"].tolist()
        ids, hashes = fingerprint(self.schema, redacted, place_ids)
        if self.schema.is_identified_by_place:
            ids = identify_places(place_ids, hashes)
        return build_entries(ids, hashes, own["unit"], own["line"])

    def _numbers_with_other_redactions(self) -> list[int]:
        """The declarations that differ from the present one by what is redacted only."""
        return [
            number
            for number, declaration in enumerate(self.schema.earlier)
            if differs_by_redaction(declaration.schema, self.schema)
        ]

    def _entry_columns(self) -> list[str]:
        """The columns of index entries."""
        columns = ["_id", "_hash", "_unit", "_line"]
        if self.schema.earlier:
            columns.append(APPEND_COLUMN)
        if self._numbers_with_other_redactions():
            columns += [*self.schema.columns, EXTRA_COLUMN]
        return columns

    def read_checked(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Like `read`. Raises `DataFileDamaged`."""
        with self._naming_damage(path):
            return self.read(path, columns)

    @contextmanager
    def _naming_damage(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise DataFileDamaged(
                f"{self.storage}/{path}: cannot read the data file: {reason}: run `moirae doctor`, "
                "and restore the file from a backup"
            ) from error


def _read_columns(file: pq.ParquetFile, names: Collection[str]) -> pa.Table:
    """Those of some columns that a file has."""
    return file.read(columns=[name for name in file.schema_arrow.names if name in names])


def _has_values(rows: pa.Table, name: str) -> bool:
    return bool(rows[name].null_count < len(rows))


def _with_append_number(rows: pa.Table, path: str) -> pa.Table:
    """Rows of a file with their append number, which may be in the name of the file only."""
    if APPEND_COLUMN in rows.column_names:
        return rows
    number = pa.scalar(append_number(path), pa.int64())
    return rows.append_column(APPEND_COLUMN, pa.repeat(number, len(rows)))


def _stores_identities(file: pq.ParquetFile, path: str) -> bool:
    """Whether all rows of a file have identities.

    Files of the present version store only those that cannot be computed. Rows that another program
    has rewritten may have none.
    """
    if not set(file.schema_arrow.names).issuperset(IDENTITY_COLUMNS):
        return False
    if is_written_by_moirae(path) and not stores_some_identities(file):
        return True
    identities = file.read(columns=list(IDENTITY_COLUMNS))
    return not any(column.null_count for column in identities.columns)


def append_number(path: str) -> int | None:
    """Parse the append number of a file's rows from its name.

    0: written before appends were counted. None: written by another program.
    """
    name = path.rpartition("/")[2]
    if not name.startswith((UNCLUSTERED_PREFIX, CLUSTERED_PREFIX)):
        return None
    _, *numbers, _ = name.split("-")
    return int(numbers[0]) if numbers else 0
