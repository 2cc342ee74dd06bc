"""The data files of a stream's table: reading and writing them, without the table's log.

Executors write files of a batch with it; the process that appends commits them.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from archiver.delta.data_files.identities import compute_identities, declarations_of
from archiver.delta.data_files.rows import (
    cast_to_fields,
    split_by_chunk,
    with_chunk_column,
    write_rows,
)
from archiver.delta.declarations import differs_by_redaction
from archiver.delta.digests import compute_digest
from archiver.delta.files import (
    ADOPTED_PREFIX,
    CLUSTERED_PREFIX,
    UNCLUSTERED_PREFIX,
    DataFile,
    is_written_by_moirae,
)
from archiver.delta.identity import Array, build_entries, fingerprint, identify_places
from archiver.delta.row_ids import RowIds, sum_row_ids
from archiver.delta.schema import APPEND_COLUMN, EXTRA_COLUMN, IDENTITY_COLUMNS, StreamSchema
from archiver.errors import DataFileDamaged
from archiver.formats import redact_table
from archiver.storage import Storage
from archiver.times import micros_column

# Rows of a chunk in one file from which it is clustered at once, and not rewritten later.
_LARGE_APPEND = 50_000


class TableFiles:
    """Data files of the table of one stream. `storage`: the folder of the table.

    It can be sent to other processes.
    """

    def __init__(self, schema: StreamSchema, storage: Storage) -> None:
        self.schema = schema
        self.storage = storage
        self.arrow_schema = schema.arrow_schema()
        # All but the partition, which is not stored in files.
        self.stored_columns = [name for name in self.arrow_schema.names if name != "chunk"]

    def write_append(self, rows: pa.Table, number: int) -> list[DataFile]:
        """Write the rows of an append, one file for each chunk.

        `rows`: of the table's schema except `_append`. The files are durable, but no part of the
        table before their commit.
        """
        files: list[DataFile] = []
        for chunk, part in list(split_by_chunk(self.with_append_number(rows, number))):
            is_large = len(part) >= _LARGE_APPEND
            files.append(self.write(chunk, part, is_large, f"{number}-"))
        return files

    def with_append_number(self, rows: pa.Table, number: int) -> pa.Table:
        """Set the append number of rows, and cast them to the table's schema."""
        if APPEND_COLUMN in rows.column_names:
            rows = rows.drop_columns([APPEND_COLUMN])
        numbers = pa.repeat(pa.scalar(number, pa.int64()), len(rows))
        rows = rows.append_column(APPEND_COLUMN, numbers)
        return rows.select(self.arrow_schema.names).cast(self.arrow_schema)

    def write(self, chunk: int, rows: pa.Table, clustered: bool, name_prefix: str = "") -> DataFile:
        """Write a data file. It is durable, but no part of the table before its commit."""
        prefix = CLUSTERED_PREFIX if clustered else UNCLUSTERED_PREFIX
        name = f"chunk={chunk}/{prefix}{name_prefix}{uuid4().hex}.parquet"
        rows = rows.drop_columns(["chunk"])
        with self.storage.write_data_file(name) as path:
            write_rows(self.schema, rows, path, clustered)
            size = path.stat().st_size
            digest = compute_digest(path)
        ts = micros_column(rows, self.schema.time)
        return DataFile(
            path=name,
            chunk=chunk,
            rows=len(rows),
            bytes=size,
            oldest=int(ts.min()),
            newest=int(ts.max()),
            digest=digest,
            ids=_sum_ids(rows),
        )

    def write_clustered(self, chunk: int, files: Sequence[DataFile]) -> DataFile:
        """Write the rows of files of a chunk as one clustered file."""
        rows = self.read_together(files)
        return self.write(chunk, with_chunk_column(rows, chunk), clustered=True)

    def write_adopted(self, chunk: int, files: Sequence[DataFile]) -> DataFile:
        """Write rows of other programs as one file, with the columns of the archive null."""
        path = f"chunk={chunk}/{ADOPTED_PREFIX}{uuid4().hex}.parquet"
        with self.storage.write_data_file(path) as local_path:
            rows = self.read_adopted(files)
            write_rows(self.schema, rows, local_path, clustered=True)
            size = local_path.stat().st_size
            digest = compute_digest(local_path)
        return DataFile(
            path=path,
            chunk=chunk,
            rows=len(rows),
            bytes=size,
            oldest=min(file.oldest for file in files),
            newest=max(file.newest for file in files),
            is_foreign=True,
            digest=digest,
        )

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
        needs_identities = bool(set(IDENTITY_COLUMNS).intersection(columns))
        if needs_identities and not _stores_identities(file, path):
            return self._read_with_identities(path, file).select(list(columns))
        stored_names = {self.stored_name(name, stored) for name in columns}
        rows = file.read(columns=[name for name in file.schema_arrow.names if name in stored_names])
        return self._select(rows, path, columns)

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

    def _read_all(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Read columns of a file, and those that are not declared any more, or never were."""
        rows = self.read(path, columns)
        file = pq.ParquetFile(self.storage.open_data_file(path))
        stored = file.schema_arrow.names
        read_names = {self.stored_name(name, stored) for name in self.arrow_schema.names}
        removed = [name for name in stored if name not in read_names]
        if removed:
            removed_columns = file.read(columns=removed)
            for name in removed_columns.column_names:
                rows = rows.append_column(name, removed_columns[name])
        return rows

    def _read_with_identities(self, path: str, file: pq.ParquetFile) -> pa.Table:
        """Read all columns of a file without identities, or without some, and compute these."""
        rows = _with_append_number(file.read(), path)
        identities = compute_identities(self.schema, rows)
        rows = rows.select([name for name in rows.column_names if name not in IDENTITY_COLUMNS])
        for name in IDENTITY_COLUMNS:
            rows = rows.append_column(name, identities[name])
        return self._select(rows, path, self.stored_columns)

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
        parts = list(map(self._read_identity_columns, paths))
        if not parts:
            return {}
        rows = pa.concat_tables(parts)
        # Rows of other programs have no source unit.
        rows = rows.filter(pc.is_valid(rows["_unit"]))
        entries = build_entries(
            rows["_id"].to_pylist(),
            hashes=rows["_hash"].to_numpy(),
            units=rows["_unit"].to_numpy(),
            lines=rows["_line"].to_numpy(),
        )
        if not self.schema.earlier:
            return {0: entries}
        numbers = declarations_of(self.schema, rows[APPEND_COLUMN])
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

    def _read_identity_columns(self, path: str) -> pa.Table:
        columns = ["_id", "_hash", "_unit", "_line"]
        if self.schema.earlier:
            columns.append(APPEND_COLUMN)
        if self._numbers_with_other_redactions():
            columns += [*self.schema.columns, EXTRA_COLUMN]
        return self.read_checked(path, columns)

    def read_checked(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Like `read`. Raises `DataFileDamaged`."""
        try:
            return self.read(path, columns)
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise DataFileDamaged(
                f"{self.storage}/{path}: cannot read the data file: {reason}: run `moirae doctor`, "
                "and restore the file from a backup"
            ) from error


def _sum_ids(rows: pa.Table) -> str | None:
    """The identities of rows as a commit holds them; None: of derived streams, which have none."""
    if pc.any(pc.equal(pc.binary_length(rows["_id"]), 0)).as_py():
        return None
    return sum_row_ids(rows).tag


def _with_append_number(rows: pa.Table, path: str) -> pa.Table:
    """Rows of a file with their append number, which may be in the name of the file only."""
    if APPEND_COLUMN in rows.column_names:
        return rows
    number = pa.scalar(append_number(path), pa.int64())
    return rows.append_column(APPEND_COLUMN, pa.repeat(number, len(rows)))


def _stores_identities(file: pq.ParquetFile, path: str) -> bool:
    """Whether all rows of a file have identities.

    Rows that another program has rewritten have none if they had not been clustered.
    """
    if not set(file.schema_arrow.names).issuperset(IDENTITY_COLUMNS):
        return False
    if is_written_by_moirae(path):
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
