"""The rows of a stream's table that are erased: found, described, and removed from its files."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import (
    EXTRA_COLUMN,
    NO_LINE,
    DataFile,
    ErasedRow,
    StreamTable,
    hash_identity,
    hours_of,
)
from archiver.time_range import ALL_TIME, TimeRange
from archiver.times import Micros, micros_column
from moirae.erasure.selection import Mask, Selection
from moirae.erasure.values import is_searchable, json_leaves

_TEXT_TYPES = ("string", "bigint", "int")
OTHER_PROGRAM = 0  # the unit of rows that another program has appended


@dataclass
class FoundRows:
    """The rows of one stream that are to be erased.

    `values`: texts and whole numbers in them. `moments`: their columns as texts, by event time.
    `chunks`: number of rows by chunk.
    """

    rows: list[ErasedRow] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    moments: dict[Micros, list[Mapping[str, str]]] = field(default_factory=dict)
    chunks: Counter[int] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.rows)


class SelectedRows:
    """The rows of one table that a selection selects."""

    def __init__(
        self, table: StreamTable, selection: Selection, time_range: TimeRange = ALL_TIME
    ) -> None:
        self.table = table
        self._selection = selection
        self._range = time_range
        self._checked: set[str] = set()  # files without such rows

    def files(self) -> list[DataFile]:
        """The files of the newest version that may have such rows."""
        self.table.refresh()
        return [
            file for file in self.table.data_files(self._range) if file.path not in self._checked
        ]

    def find(self, key: bytes) -> FoundRows:
        """Read the rows. `key`: of the hashes of their identities."""
        found_rows = FoundRows()
        for file in self.files():
            selected = self.select(file)
            if selected.any():
                self._describe(file, selected, key, found_rows)
        return found_rows

    def select(self, file: DataFile) -> Mask:
        """Mask of the rows of a file that are erased. A file without any is not read again."""
        schema = self.table.schema
        names = dict.fromkeys(["_id", schema.time, *self._selection.columns])
        selected = self._selection.select(self.table.files.read_checked(file.path, list(names)))
        if not selected.any():
            self._checked.add(file.path)
        return selected

    def erase(self) -> int:
        """Remove the rows from the files; return their number. Raises `ArchiverError`."""
        erased = 0
        files = self.files()
        while files:
            erased += self.table.erase(self.select, files)
            # Files that others have committed meanwhile, and those that were rewritten.
            files = self.files()
        return erased

    def _describe(self, file: DataFile, selected: Mask, key: bytes, found_rows: FoundRows) -> None:
        schema = self.table.schema
        columns = [name for name, kind in schema.columns.items() if kind in _TEXT_TYPES]
        read = dict.fromkeys([*columns, EXTRA_COLUMN, "_id", "_unit", "_line", schema.time])
        rows = self.table.files.read_checked(file.path, list(read)).filter(pa.array(selected))
        ts = micros_column(rows, schema.time)
        units = pc.fill_null(rows["_unit"], OTHER_PROGRAM).to_pylist()
        lines = pc.fill_null(rows["_line"], NO_LINE).to_pylist()
        row_places = zip(rows["_id"].to_pylist(), units, lines, hours_of(ts).tolist(), strict=True)
        for identity, unit, line, hour in row_places:
            found_rows.rows.append(ErasedRow(hash_identity(key, identity), unit, line, hour))
        found_rows.chunks[file.chunk] += len(rows)
        found_rows.values.update(list_values(rows, columns))
        texts = rows.select(columns).to_pylist()
        for moment, row in zip(ts.tolist(), texts, strict=True):
            described = {name: str(value) for name, value in row.items() if value is not None}
            found_rows.moments.setdefault(moment, []).append(described)


def list_values(rows: pa.Table, columns: Iterable[str]) -> Iterator[str]:
    """The values of rows in some columns and in `_extra` that can be told from other text."""
    for name in columns:
        for value in pc.unique(rows[name]).drop_null().to_pylist():
            if is_searchable(str(value)):
                yield str(value)
    for document in pc.unique(rows[EXTRA_COLUMN]).drop_null().to_pylist():
        yield from filter(is_searchable, json_leaves(orjson.loads(document)))


def find_remaining(
    tables: Mapping[str, StreamTable],
    selections: Mapping[str, SelectedRows],
    values: Collection[str],
) -> set[str]:
    """Of some values, those that rows hold which are not erased, of any stream."""
    missing = set(values)
    for name, table in tables.items():
        for file in table.data_files():
            if not missing:
                return set(values)
            missing -= _values_in(table, file, selections.get(name), missing)
    return set(values) - missing


def _values_in(
    table: StreamTable, file: DataFile, selection: SelectedRows | None, values: Collection[str]
) -> set[str]:
    """Of some values, those in the remaining rows of a file."""
    columns = [name for name, kind in table.schema.columns.items() if kind in _TEXT_TYPES]
    rows = table.files.read_checked(file.path, [*columns, EXTRA_COLUMN])
    if selection is not None:
        selected = selection.select(file)
        if selected.any():
            rows = rows.filter(pa.array(np.logical_not(selected)))
    if not len(rows):
        return set()
    return set(values).intersection(list_values(rows, columns))
