"""Classify the decoded rows of one stream, and append the new ones to its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from archiver.chunks import Chunk, locate
from archiver.delta import IdentityIndex, StreamTable, build_entries, fingerprint
from archiver.ingest.classify import Array, Mask, RowClassification, classify
from archiver.ingest.open_unit import DecodedSlice
from archiver.times import micros_column

_MAX_INDEXED_ROWS = 4_000_000  # identities in memory per stream; 56 bytes each


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
        columns = {
            "_late": pa.array(self.is_late),
            "_id": pa.array(self.ids, pa.binary()),
            "_hash": pa.array(np.ascontiguousarray(self.entries["hash"])),
            "_unit": pa.array(np.ascontiguousarray(self.entries["unit"])),
            "_line": pa.array(np.ascontiguousarray(self.entries["line"])),
            "chunk": pa.array(chunk_ids, pa.int32()),
        }
        rows = self.table
        for name, values in columns.items():
            rows = rows.append_column(name, values)
        return rows


class StreamAppender:
    """The table of one stream with the identities of its rows, in the process that appends."""

    def __init__(self, table: StreamTable) -> None:
        self._table = table
        self._identities = IdentityIndex(table.read_identities, _MAX_INDEXED_ROWS)

    def classify(self, slices: Sequence[DecodedSlice], chunks: Sequence[Chunk]) -> ClassifiedRows:
        """Compare the rows of slices with the archived rows. `chunks`: all chunks, oldest first."""
        schema = self._table.schema
        rows = pa.concat_tables([decoded.table for decoded in slices])
        ts = micros_column(rows, schema.time)
        ids, hashes = fingerprint(schema, rows)
        entries = build_entries(ids, hashes, _unit_ids(slices), _line_numbers(slices))
        is_archived, archived_entries = self._find_archived(entries, locate(chunks, ts))
        return ClassifiedRows(
            table=rows,
            ts=ts,
            is_late=np.concatenate([decoded.is_late for decoded in slices]),
            ids=ids,
            entries=entries,
            classification=classify(entries, is_archived, archived_entries),
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
            indexes[chunk] = self._identities.for_chunk(chunk)
        fence()
        self._table.append(rows, batch)
        for chunk, index in indexes.items():
            index.add(entries[chunk_ids == chunk])

    def _find_archived(self, entries: Array, chunk_ids: Array) -> tuple[Mask, Array]:
        """Mask of the identities found in the rows' chunks, and the entries found."""
        is_archived = np.zeros(len(entries), dtype=bool)
        archived_entries = np.zeros(len(entries), dtype=entries.dtype)
        for chunk in np.unique(chunk_ids).tolist():
            in_chunk = chunk_ids == chunk
            index = self._identities.for_chunk(chunk)
            is_archived[in_chunk], archived_entries[in_chunk] = index.find(entries["id"][in_chunk])
        return is_archived, archived_entries


def _unit_ids(slices: Sequence[DecodedSlice]) -> Array:
    """The ledger id of the unit of each row."""
    unit_ids = [decoded.open_unit.id for decoded in slices]
    return np.repeat(unit_ids, list(map(len, slices)))


def _line_numbers(slices: Sequence[DecodedSlice]) -> Array:
    """The line number of each row in its unit."""
    return np.concatenate([decoded.line_numbers for decoded in slices])
