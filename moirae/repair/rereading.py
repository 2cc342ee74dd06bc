"""Reads rows that a table has lost again from their records."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.chunks import Chunk, locate
from archiver.delta import (
    EXTRA_COLUMN,
    Erasures,
    StreamTable,
    add_archive_columns,
    fingerprint,
    row_places,
)
from archiver.ingest import SourceUnit, read_batches
from archiver.times import Micros, micros_column


@dataclass(frozen=True)
class RowLimits:
    """At most `limit` rows. `oldest`, `newest`: event times between which they are; None: not known.

    `erased`: what was deleted on purpose, and stays deleted; `lost_ids`: of rows that were lost for
    certain, wherever else rows were deleted.
    """

    limit: int
    oldest: Micros | None = None
    newest: Micros | None = None
    erased: Erasures | None = None
    lost_ids: Collection[bytes] = ()

    def may_be_at(self, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which rows at these times may be among them."""
        is_lost = np.ones(len(ts), dtype=bool)
        if self.oldest is not None:
            is_lost &= ts >= self.oldest
        if self.newest is not None:
            is_lost &= ts <= self.newest
        return is_lost

    def may_return(self, row_id: bytes, chunk: int) -> bool:
        """Whether a row was not deleted on purpose, as far as that is known."""
        if self.erased is None or row_id in self.lost_ids:
            return True
        return row_id not in self.erased.ids and chunk not in self.erased.unknown_chunks


def read_lost_rows(
    table: StreamTable,
    unit: SourceUnit,
    unit_id: int,
    chunks: Sequence[Chunk],
    *,
    refused_lines: Collection[int],
    clock: Micros | None,
    lost: RowLimits,
) -> pa.Table:
    """The lost rows of a unit, as they are appended.

    `chunks`: those that are stored. `refused_lines`: of records that were not archived. The rows
    are not late: what came of them is known. Raises `OSError` and `ArchiverError`.
    """
    schema = table.schema
    parts = [_empty(table)]
    count = 0
    for batch in read_batches(unit, schema, clock):
        rows = batch.rows
        ts = micros_column(rows.table, schema.time)
        place_keys = row_places(schema, batch.reading.unit, rows.line_numbers)
        ids, hashes = fingerprint(schema, rows.table, place_keys)
        chunk_ids = locate(chunks, ts)
        stored = {chunk.id for chunk in chunks}
        is_lost = np.array(
            [
                chunk in stored and line not in refused_lines
                for chunk, line in zip(chunk_ids.tolist(), rows.line_numbers.tolist(), strict=True)
            ],
            dtype=bool,
        )
        is_lost &= lost.may_be_at(ts)
        for chunk in {chunk for chunk in chunk_ids.tolist() if chunk in stored}:
            present = set(table.read_accounted(["_id"], chunk)["_id"].to_pylist())
            for index in np.flatnonzero(is_lost & (chunk_ids == chunk)).tolist():
                is_lost[index] = ids[index] not in present and lost.may_return(ids[index], chunk)
                present.add(ids[index])
        positions = np.flatnonzero(is_lost)[: lost.limit - count]
        count += len(positions)
        names = [
            name for name in (*schema.columns, EXTRA_COLUMN) if name in rows.table.column_names
        ]
        archive_rows = add_archive_columns(
            rows.table.select(names),
            ids,
            hashes,
            np.zeros(len(ids), bool),
            units=np.full(len(ids), unit_id),
            line_numbers=rows.line_numbers,
            chunk_ids=chunk_ids,
        )
        parts.append(_fit(archive_rows.take(pa.array(positions)), table))
    return pa.concat_tables(parts)


def _empty(table: StreamTable) -> pa.Table:
    return table.files.arrow_schema.empty_table().drop_columns(["_append"])


def _fit(rows: pa.Table, table: StreamTable) -> pa.Table:
    target = _empty(table).schema
    return rows.select(target.names).cast(target)
