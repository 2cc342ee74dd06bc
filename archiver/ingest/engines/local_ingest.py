"""Archives source units in this process, slice by slice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from archiver.chunks import locate
from archiver.delta import StreamTable
from archiver.ingest.engines.batch import ArchivedRows, IngestBatch
from archiver.ingest.engines.refused_lines import count_archived_lines
from archiver.ingest.engines.stream_appender import StreamAppender
from archiver.ingest.engines.stream_progress import RegisteredUnit
from archiver.ingest.open_unit import DecodedSlice, OpenUnit, count_classified, make_slices
from archiver.ingest.source_units import (
    BATCH_RECORDS,
    SourceUnit,
    UnitBatch,
    read_batches,
    read_units,
)


class LocalIngest:
    """Decodes, classifies and appends in this process, which has the identities in memory.

    The rows of a slice are appended in one commit.
    """

    def __init__(self, tables: Mapping[str, StreamTable]) -> None:
        self._appenders = {stream: StreamAppender(table) for stream, table in tables.items()}

    def archive(self, units: Sequence[SourceUnit], batch: IngestBatch) -> dict[str, ArchivedRows]:
        """Archive the units that are not finished."""
        appended_rows: dict[str, int] = {}
        on_time: dict[str, list[pa.Table]] = {}
        for slices in self._decode_units(units, batch):
            stream = slices[0].open_unit.unit.stream
            on_time_rows, appended = self.append_slices(slices, batch)
            appended_rows[stream] = appended_rows.get(stream, 0) + appended
            on_time.setdefault(stream, []).append(on_time_rows)
        archived: dict[str, ArchivedRows] = {}
        for stream, tables in on_time.items():
            archived[stream] = ArchivedRows(appended_rows[stream], pa.concat_tables(tables))
        return archived

    def _decode_units(
        self, units: Sequence[SourceUnit], batch: IngestBatch
    ) -> Iterator[list[DecodedSlice]]:
        """Yields consecutive slices of one stream that are to be appended together."""
        slices: list[DecodedSlice] = []
        row_count = 0
        for unit, registered, batches in _read_units(units, batch):
            if slices and slices[0].open_unit.unit.stream != unit.stream:
                yield slices
                slices, row_count = [], 0
            open_unit = batch.open_unit(unit, registered)
            for decoded_slice in decode_unit(open_unit, batch, batches):
                slices.append(decoded_slice)
                row_count += len(decoded_slice)
                if row_count >= BATCH_RECORDS:
                    yield slices
                    slices, row_count = [], 0
            batch.finish_reading(open_unit)
        if slices:
            yield slices

    def append_slices(
        self, slices: Sequence[DecodedSlice], batch: IngestBatch
    ) -> tuple[pa.Table, int]:
        """Classify the rows of slices of one stream, and append the new ones in one commit.

        Returns the on-time rows of the slices that are archived now, and how many were appended.
        """
        cutter = batch.cutter
        appender = self._appenders[slices[0].open_unit.unit.stream]
        classified = appender.classify(slices, cutter.chunks)
        is_new, is_archived, is_late = classified.is_new, classified.is_archived, classified.is_late
        cutter.cut(classified.ts[is_new])
        chunk_ids = locate(cutter.chunks, classified.ts)
        rows = classified.with_archive_columns(chunk_ids)
        new_rows = rows.filter(pa.array(is_new))
        if len(new_rows):
            appender.append(
                new_rows,
                classified.entries[is_new],
                chunk_ids[is_new],
                chunks=cutter.chunks,
                batch=batch.number,
                fence=batch.fence,
            )
            cutter.count(classified.ts[is_new])
        late_chunks = np.unique(chunk_ids[is_archived & is_late])
        batch.chunks_with_late_rows.update(late_chunks.tolist())
        count_classified(slices, classified.classification)
        return rows.filter(pa.array(is_archived & ~is_late)), len(new_rows)

    def count_archived_lines(self, open_units: Iterable[OpenUnit], batch: IngestBatch) -> None:
        """Count refused lines of units that repeat rows of earlier declarations as duplicates."""
        for open_unit in open_units:
            appender = self._appenders[open_unit.unit.stream]
            count_archived_lines(open_unit, appender, batch.cutter.chunks)

    def forget(self, stream: str, chunks: Iterable[int]) -> None:
        """Drop the identities of chunks to which another engine has appended."""
        self._appenders[stream].forget(chunks)


def _read_units(
    units: Sequence[SourceUnit], batch: IngestBatch
) -> Iterator[tuple[SourceUnit, RegisteredUnit, Iterable[UnitBatch]]]:
    """Register units; yields those that are not finished with their decoded records."""
    registered_units = zip(units, batch.register_units(units), strict=True)
    unfinished = [(unit, row) for unit, row in registered_units if row is not None]
    for stream, group in groupby(unfinished, lambda pair: pair[0].stream):
        stream_units = list(group)
        batches = read_units(
            [(unit, row.clock) for unit, row in stream_units], batch.tables[stream].schema
        )
        for (unit, row), unit_batches in zip(stream_units, batches, strict=True):
            yield unit, row, unit_batches


def decode_unit(
    open_unit: OpenUnit, batch: IngestBatch, batches: Iterable[UnitBatch] | None = None
) -> Iterator[DecodedSlice]:
    """The rows of a unit of a batch. `batches`: its decoded records; None: they are read here."""
    stream = open_unit.unit.stream
    schema = batch.tables[stream].schema
    if batches is None:
        batches = read_batches(open_unit.unit, schema, open_unit.late_rule.clock)
    return make_slices(open_unit, batches, schema, batch.now, batch.expired_before(stream))
