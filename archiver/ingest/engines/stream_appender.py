"""Classify the decoded rows of one stream, and append the new ones to its table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from archiver.chunks import Chunk, locate
from archiver.delta import (
    ENTRY_DTYPE,
    FileIdentities,
    IdentityIndex,
    StreamSchema,
    StreamTable,
    add_archive_columns,
    build_entries,
    fingerprint,
    is_unclustered,
    look_up,
)
from archiver.ingest.classify import (
    ArchivedMatches,
    Array,
    Mask,
    RowClassification,
    classify,
)
from archiver.ingest.erased_again import record_erased
from archiver.ingest.open_unit import DecodedSlice
from archiver.times import micros_column

_MAX_INDEXED_ROWS = 4_000_000  # identities in memory per stream; 56 bytes each
_MAX_LOOKED_UP_ROWS = 2_000_000  # identities of files in memory per stream; 40 bytes each

Finder = Callable[[Array, Array], tuple[Array, Array]]
"""Of ids, and the positions of candidates: those that are archived, and their entries."""

# Each part of a table costs time with every operation; joining them copies the rows once.
_MAX_PARTS = 16


@dataclass(frozen=True)
class ClassifiedRows:
    """Rows of consecutive slices of one stream, compared with the archive.

    `ts`: event times in microseconds. `ids`: identities of 16 bytes. `entries`: index entries, see
    `archiver.delta.identity.build_entries`.
    """

    table: pa.Table
    ts: Array
    is_late: Mask
    ids: list[bytes]
    entries: Array
    classification: RowClassification

    @property
    def is_new(self) -> Mask:
        """Mask of the rows to append."""
        return self.classification.new

    @property
    def is_archived(self) -> Mask:
        """Mask of the rows that are in the archive once the new ones are appended."""
        return self.classification.new | self.classification.replayed

    def with_archive_columns(self, chunk_ids: Array) -> pa.Table:
        """The rows with the columns that the archive adds to those of the stream."""
        return add_archive_columns(
            self.table,
            self.ids,
            np.ascontiguousarray(self.entries["hash"]),
            self.is_late,
            units=np.ascontiguousarray(self.entries["unit"]),
            line_numbers=np.ascontiguousarray(self.entries["line"]),
            chunk_ids=chunk_ids,
        )


class StreamAppender:
    """The table of one stream with the identities of its rows, in the process that appends.

    Those of present chunks are in memory, but for clustered files; those are looked up by time, as
    are all files of closed chunks.
    """

    def __init__(self, table: StreamTable) -> None:
        self._table = table
        self._identities = IdentityIndex(
            partial(table.read_identities, is_included=is_unclustered), _MAX_INDEXED_ROWS
        )
        self._files = FileIdentities(table.files, _MAX_LOOKED_UP_ROWS)

    @property
    def schema(self) -> StreamSchema:
        """The stream as it is declared."""
        return self._table.schema

    @property
    def _declaration(self) -> int:
        """The number of the present declaration."""
        return len(self.schema.earlier)

    def classify(self, slices: Sequence[DecodedSlice], chunks: Sequence[Chunk]) -> ClassifiedRows:
        """Compare the rows of slices with the archived rows. `chunks`: all chunks, oldest first."""
        schema = self.schema
        rows = pa.concat_tables([decoded.table for decoded in slices])
        if len(slices) > _MAX_PARTS:
            rows = rows.combine_chunks()
        ts = micros_column(rows, schema.time)
        place_keys = [key for decoded in slices for key in decoded.place_keys]
        ids, hashes = fingerprint(schema, rows, place_keys)
        entries = build_entries(ids, hashes, _unit_ids(slices), _line_numbers(slices))
        matches = ArchivedMatches.none_of(entries)
        readings = _readings(slices)
        self._find_archived(matches, rows, ts, readings, chunks)
        record_erased(matches, self._table.files.erased, ts, readings)
        return ClassifiedRows(
            table=rows,
            ts=ts,
            is_late=np.concatenate([decoded.late_rows.late for decoded in slices]),
            ids=ids,
            entries=entries,
            classification=classify(
                entries, matches.is_archived, matches.archived, matches.is_erased
            ),
        )

    def append(
        self,
        rows: pa.Table,
        entries: Array,
        chunk_ids: Array,
        *,
        chunks: Sequence[Chunk],
        batch: int,
        fence: Callable[[], None],
    ) -> None:
        """Append rows with archive columns in one commit, and add them to the identity index.

        `chunks`: all chunks, oldest first. `fence` is called directly before the commit; nothing is
        appended if it raises.
        """
        # An index that is not in memory is loaded from the table. It is loaded before the append,
        # as it would contain the new rows otherwise.
        indexes = {}
        for chunk in np.unique(chunk_ids).tolist():
            if self._is_indexed(chunk, chunks):
                indexes[chunk] = self._identities.for_chunk(chunk)[self._declaration]
        fence()
        files = self._table.append(rows, batch)
        for chunk, index in indexes.items():
            index.add(entries[chunk_ids == chunk])
        for file in files:
            if file.chunk in indexes:
                self._identities.add_file(file.chunk, file.path)

    def forget(self, chunks: Iterable[int]) -> None:
        """Drop the identities of chunks that were appended to without this object."""
        for chunk in chunks:
            self._identities.forget(chunk)

    def find_readings(self, readings: Array, chunks: Sequence[Chunk]) -> tuple[Mask, Array]:
        """Mask of the readings that equal archived rows of their declaration, and these entries."""
        is_archived = np.zeros(len(readings), dtype=bool)
        entries = np.zeros(len(readings), dtype=ENTRY_DTYPE)

        def record(positions: Array, archived: Array) -> None:
            is_equal = archived["hash"] == readings["hash"][positions]
            is_archived[positions[is_equal]] = True
            entries[positions[is_equal]] = archived[is_equal]

        chunk_ids = locate(chunks, readings["ts"])
        for chunk in np.unique(chunk_ids).tolist():
            in_chunk = chunk_ids == chunk
            for declaration, find in self._list_entries(chunk, readings["ts"][in_chunk], chunks):
                positions = np.flatnonzero(in_chunk & (readings["declaration"] == declaration))
                matching, archived = find(readings["id"], positions)
                record(matching, archived)
        return is_archived, entries

    def _find_archived(
        self,
        matches: ArchivedMatches,
        rows: pa.Table,
        ts: Array,
        readings: Array,
        chunks: Sequence[Chunk],
    ) -> None:
        """Find the archived rows of the identities in the rows' chunks.

        `readings`: by earlier declarations, see `archiver.ingest.earlier_readings`.
        """
        ids = matches.entries["id"]
        chunk_ids = locate(chunks, ts)
        for chunk in np.unique(chunk_ids).tolist():
            positions = np.flatnonzero(chunk_ids == chunk)
            read = readings[chunk_ids[readings["row"]] == chunk]
            times = np.concatenate([ts[positions], read["ts"]])
            values = self._identifying_values(rows, positions)
            for declaration, find in self._list_entries(chunk, times, chunks, values):
                if declaration == self._declaration:
                    matches.record(*find(ids, positions))
                else:
                    of_declaration = np.flatnonzero(read["declaration"] == declaration)
                    matching, archived = find(read["id"], of_declaration)
                    matches.record_earlier(read[matching], archived)

    def _identifying_values(self, rows: pa.Table, positions: Array) -> Mapping[str, pa.Array]:
        """The values of columns that an archived row must have to repeat one of the rows."""
        if self.schema.earlier:
            return {}
        names = [name for name in self.schema.id or self.schema.key if name != self.schema.time]
        selected = rows.select(names)
        if len(positions) < len(rows):
            selected = selected.take(pa.array(positions))
        return {name: pc.unique(selected[name]) for name in names}

    def _list_entries(
        self,
        chunk: int,
        times: Array,
        chunks: Sequence[Chunk],
        values: Mapping[str, pa.Array] | None = None,
    ) -> Iterator[tuple[int, Finder]]:
        """What is archived in a chunk, by declaration: all rows with some event times."""
        files = self._table.accounted_files(chunk)
        if self._is_indexed(chunk, chunks):
            for declaration, index in self._identities.for_chunk(chunk).items():
                yield declaration, index.find_among
            files = [
                file
                for file in files
                if not is_unclustered(file.path)
                and not self._identities.contains_file(chunk, file.path)
            ]
        if not files:
            return
        sorted_times = np.unique(times)
        for file in files:
            bounds = np.searchsorted(sorted_times, [file.oldest, file.newest + 1])
            if bounds[0] < bounds[1]:
                by_declaration = self._files.find_at(file, sorted_times[slice(*bounds)], values)
                for declaration, entries in by_declaration.items():
                    yield declaration, partial(look_up, entries)

    def _is_indexed(self, chunk: int, chunks: Sequence[Chunk]) -> bool:
        """Whether the identities of a chunk are in memory, or are to be."""
        return chunk in self._identities or chunk in _present_chunks(chunks)


def _present_chunks(chunks: Sequence[Chunk]) -> set[int]:
    return {chunk.id for chunk in chunks if chunk.state == "present"}


def _readings(slices: Sequence[DecodedSlice]) -> Array:
    """The readings of the rows by earlier declarations, numbered by position in all slices."""
    parts: list[Array] = [slices[0].readings[:0]]
    start = 0
    for decoded in slices:
        if len(decoded.readings):
            readings = decoded.readings.copy()
            readings["row"] += start
            parts.append(readings)
        start += len(decoded)
    return np.concatenate(parts)


def _unit_ids(slices: Sequence[DecodedSlice]) -> Array:
    """The ledger id of the unit of each row."""
    unit_ids = [decoded.open_unit.id for decoded in slices]
    return np.repeat(unit_ids, list(map(len, slices)))


def _line_numbers(slices: Sequence[DecodedSlice]) -> Array:
    """The line number of each row in its unit."""
    return np.concatenate([decoded.line_numbers for decoded in slices])
