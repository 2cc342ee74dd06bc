"""Classify the decoded rows of one stream, and append the new ones to its table."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from archiver.chunks import Chunk, locate
from archiver.delta import (
    ENTRY_DTYPE,
    IdentityIndex,
    StreamSchema,
    StreamTable,
    add_archive_columns,
    build_entries,
    fingerprint,
)
from archiver.ingest.classify import (
    ArchivedMatches,
    Array,
    Mask,
    RowClassification,
    classify,
)
from archiver.ingest.open_unit import DecodedSlice
from archiver.times import micros_column

_MAX_INDEXED_ROWS = 4_000_000  # identities in memory per stream; 56 bytes each


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
    """The table of one stream with the identities of its rows, in the process that appends."""

    def __init__(self, table: StreamTable) -> None:
        self._table = table
        self._identities = IdentityIndex(table.read_identities, _MAX_INDEXED_ROWS)

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
        matches = self._find_archived(entries, _readings(slices), locate(chunks, ts))
        return ClassifiedRows(
            table=rows,
            ts=ts,
            is_late=np.concatenate([decoded.late_rows.late for decoded in slices]),
            ids=ids,
            entries=entries,
            classification=classify(entries, matches.is_archived, matches.archived),
        )

    def append(
        self,
        rows: pa.Table,
        entries: Array,
        chunk_ids: Array,
        batch: int,
        fence: Callable[[], None],
    ) -> None:
        """Append rows with archive columns in one commit, and add them to the identity index.

        `fence` is called directly before the commit; nothing is appended if it raises.
        """
        # An index that is not in memory is loaded from the table. It is loaded before the append,
        # as it would contain the new rows otherwise.
        indexes = {}
        for chunk in np.unique(chunk_ids).tolist():
            indexes[chunk] = self._identities.for_chunk(chunk)[self._declaration]
        fence()
        self._table.append(rows, batch)
        for chunk, index in indexes.items():
            index.add(entries[chunk_ids == chunk])

    def forget(self, chunks: Iterable[int]) -> None:
        """Drop the identities of chunks that were appended to without this object."""
        for chunk in chunks:
            self._identities.forget(chunk)

    def find_readings(self, readings: Array, chunk_ids: Array) -> tuple[Mask, Array]:
        """Mask of the readings that equal archived rows of their declaration, and these entries.

        `chunk_ids`: the chunk of each reading.
        """
        is_archived = np.zeros(len(readings), dtype=bool)
        entries = np.zeros(len(readings), dtype=ENTRY_DTYPE)
        for chunk in np.unique(chunk_ids).tolist():
            for declaration, index in self._identities.for_chunk(chunk).items():
                of_declaration = (chunk_ids == chunk) & (readings["declaration"] == declaration)
                positions = np.flatnonzero(of_declaration)
                is_indexed, archived = index.find(readings["id"][positions])
                is_equal = is_indexed & (archived["hash"] == readings["hash"][positions])
                is_archived[positions[is_equal]] = True
                entries[positions[is_equal]] = archived[is_equal]
        return is_archived, entries

    def _find_archived(self, entries: Array, readings: Array, chunk_ids: Array) -> ArchivedMatches:
        """Find the archived rows of the identities in the rows' chunks.

        `readings`: by earlier declarations, see `archiver.ingest.earlier_readings`.
        """
        matches = ArchivedMatches.none_of(entries)
        for chunk in np.unique(chunk_ids).tolist():
            rows = np.flatnonzero(chunk_ids == chunk)
            in_chunk = chunk_ids[readings["row"]] == chunk
            for declaration, index in self._identities.for_chunk(chunk).items():
                if declaration == self._declaration:
                    is_indexed, archived = index.find(entries["id"][rows])
                    matches.record(rows[is_indexed], archived[is_indexed])
                else:
                    read = readings[in_chunk & (readings["declaration"] == declaration)]
                    is_indexed, archived = index.find(read["id"])
                    matches.record_earlier(read[is_indexed], archived[is_indexed])
        return matches


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
