"""Identities of archived rows, looked up in their files by event time.

Rows of one identity have one event time. A late or repeated row is therefore compared with the rows
of its own time only: the times of a file are in memory once it was looked at, and identities are
computed for the rows at the times that are asked for. Where that were all of them in the end, they
are computed at once, and kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from archiver.delta.data_files import IdentifiableRows, TableFiles
from archiver.delta.files import DataFile
from archiver.delta.identity import Array
from archiver.delta.schema import StreamSchema
from archiver.times import micros_column

# Types of columns whose equal values are found by their bytes.
_EXACT_TYPES = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)


@dataclass
class _FileRows:
    """Rows of a file by time. `times`: ascending; `order`: their positions in `rows`.

    `computed`: how many identities were computed for look-ups.
    """

    times: Array
    order: Array
    rows: IdentifiableRows
    computed: int = 0

    @property
    def bytes(self) -> int:
        return int(self.rows.rows.nbytes + 2 * self.times.nbytes)

    def positions_at(self, times: Array) -> Array:
        """The rows at some times (ascending, distinct)."""
        starts = np.searchsorted(self.times, times, side="left")
        ends = np.searchsorted(self.times, times, side="right")
        counts = ends - starts
        is_present = counts > 0
        starts, counts = starts[is_present], counts[is_present]
        if not len(counts):
            return self.order[:0]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        positions: Array = self.order[np.repeat(starts, counts) + offsets]
        return positions


class FileIdentities:
    """Looks up rows in data files of one table. Files never change.

    `max_rows`: whose identities are in memory, 40 bytes each. `max_bytes`: of rows.
    """

    def __init__(self, files: TableFiles, max_rows: int, max_bytes: int = 256 << 20) -> None:
        self._files = files
        self._entries: LRUCache[str, Mapping[int, Array]] = LRUCache(max_rows, getsizeof=_count)
        self._rows: LRUCache[str, _FileRows] = LRUCache(max_bytes, getsizeof=attrgetter("bytes"))

    @property
    def schema(self) -> StreamSchema:
        """The stream as it is declared."""
        return self._files.schema

    def find_at(
        self, file: DataFile, times: Array, values: Mapping[str, pa.Array] | None = None
    ) -> Mapping[int, Array]:
        """Index entries of rows of a file, by declaration, sorted by id: all at some event times.

        `times`: microseconds, ascending and distinct. `values`: by column, those that rows must
        have to be of interest, if all have them under one declaration. Rows of other times and
        values may be among the entries. Raises `DataFileDamaged`.
        """
        entries = self._entries.get(file.path)
        if entries is not None:
            return entries
        rows = self._load_rows(file)
        positions = rows.positions_at(times)
        if not len(positions):
            return {}
        selected = rows.rows.rows.take(pa.array(positions))
        if values:
            selected = _filter_values(selected, values)
        rows.computed += len(selected)
        if rows.computed > len(rows.times):
            return self._load_all(file)
        return sort_entries(self._files.compute_entries(selected, rows.rows.schema))

    def _load_all(self, file: DataFile) -> Mapping[int, Array]:
        entries = sort_entries(self._files.read_identities([file.path]))
        if _count(entries) <= self._entries.maxsize:
            self._entries[file.path] = entries
            self._rows.pop(file.path, None)
        return entries

    def _load_rows(self, file: DataFile) -> _FileRows:
        rows = self._rows.get(file.path)
        if rows is None:
            content = self._files.read_for_identities(file.path)
            times = micros_column(content.rows, self._files.schema.time)
            order = np.argsort(times, kind="stable")
            rows = _FileRows(times[order], order, content)
            if rows.bytes <= self._rows.maxsize:
                self._rows[file.path] = rows
        return rows


def sort_entries(entries: Mapping[int, Array]) -> dict[int, Array]:
    """Entries by declaration, sorted by id; none of a declaration without rows."""
    return {
        declaration: of_declaration[np.argsort(of_declaration["id"], kind="stable")]
        for declaration, of_declaration in entries.items()
        if len(of_declaration)
    }


def look_up(entries: Array, ids: Array, candidates: Array) -> tuple[Array, Array]:
    """The candidates whose id is among some entries, and these entries.

    `entries`: sorted by id, not empty. `candidates`: positions in `ids`.
    """
    # Sorted look-ups are near each other in memory and use the processor's cache.
    candidates = candidates[np.argsort(ids[candidates], kind="stable")]
    candidate_ids = ids[candidates]
    positions = np.minimum(np.searchsorted(entries["id"], candidate_ids), len(entries) - 1)
    is_match = entries["id"][positions] == candidate_ids
    return candidates[is_match], entries[positions[is_match]]


def _count(entries: Mapping[int, Array]) -> int:
    return sum(map(len, entries.values()))


def _filter_values(rows: pa.Table, values: Mapping[str, pa.Array]) -> pa.Table:
    for name, accepted in values.items():
        is_exact = any(is_type(accepted.type) for is_type in _EXACT_TYPES)
        if is_exact and name in rows.column_names:
            rows = rows.filter(pc.is_in(rows[name], accepted))
    return rows
