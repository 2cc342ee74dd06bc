"""Archives source units on executors; the driver plans, cuts chunks and commits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from archiver.clock import seconds_since_boot
from archiver.delta import DataFile, StreamTable
from archiver.executors.decode import (
    DecodeContext,
    DecodedPart,
    DecodedSegment,
    DecodeSummary,
    decode_pieces,
)
from archiver.executors.grouping import assign_groups, divide_times
from archiver.executors.identities import (
    BlobKey,
    Bucket,
    BucketKey,
    BucketResult,
    IdentityContext,
    NewRows,
    OtherRows,
    classify_bucket,
    decompress_integers,
    split_by_bucket,
)
from archiver.executors.jobs import Jobs, Parts
from archiver.executors.task_planner import TaskPlanner
from archiver.executors.write import WriteContext, WriteResult, write_new_rows
from archiver.ingest import ArchivedRows, IngestBatch, OpenUnit, RecordSizes, SourceUnit
from archiver.ingest.classify import latest

_MIN_BUCKET_ROWS = 25_000


@dataclass(frozen=True)
class _DecodedBatch:
    """The segments of a batch by task, and its opened units."""

    opened: Sequence[OpenUnit]
    segments_by_task: Sequence[Sequence[DecodedSegment]]

    @property
    def segments(self) -> list[DecodedSegment]:
        """All segments in the order of arrival."""
        return [segment for segments in self.segments_by_task for segment in segments]

    @property
    def unit_ids(self) -> list[int]:
        """The ledger id of each unit."""
        return [open_unit.id for open_unit in self.opened]

    def segments_by_stream(self) -> dict[str, list[DecodedSegment]]:
        """The segments with rows."""
        by_stream: dict[str, list[DecodedSegment]] = {}
        for segment in self.segments:
            if segment.rows:
                stream = self.opened[segment.unit].unit.stream
                by_stream.setdefault(stream, []).append(segment)
        return by_stream


class ExecutorIngest:
    """Three jobs for a batch: decode pieces of the units, find the rows that are new, write them.

    The driver holds no rows: it learns at most the event time of each new row, and the position of
    each row that is not new. `sizes` estimates how many rows a unit has.
    """

    def __init__(self, jobs: Jobs, sizes: RecordSizes) -> None:
        self._jobs = jobs
        self._planner = TaskPlanner(jobs, sizes)

    def archive(self, units: Sequence[SourceUnit], batch: IngestBatch) -> dict[str, ArchivedRows]:
        """Archive the units that are not finished."""
        unfinished: list[SourceUnit] = []
        unit_ids: list[int] = []
        for unit in units:
            unit_id = batch.register_unit(unit)
            if unit_id is not None:
                unfinished.append(unit)
                unit_ids.append(unit_id)
        if not unfinished:
            return {}
        tasks = self._planner.plan(unfinished)
        if not tasks:
            _open_units(unfinished, unit_ids, [], batch)
            return {}
        schemas = {unit.stream: batch.tables[unit.stream].schema for unit in unfinished}
        context = DecodeContext(schemas, batch.now, batch.expired_before)
        parts = self._jobs.keep(partial(decode_pieces, context), tasks)
        try:
            segments_by_task = [summary.segments for summary in parts.map(_read_summary)]
            opened = _open_units(unfinished, unit_ids, segments_by_task, batch)
            return self._archive_decoded(_DecodedBatch(opened, segments_by_task), parts, batch)
        finally:
            parts.release()

    def _archive_decoded(
        self, decoded: _DecodedBatch, parts: Parts, batch: IngestBatch
    ) -> dict[str, ArchivedRows]:
        segments_by_stream = decoded.segments_by_stream()
        if not segments_by_stream:
            return {}
        # Before the files are listed: the numbers also show that no other process has appended.
        append_numbers = {
            stream: batch.tables[stream].start_append() for stream in segments_by_stream
        }
        results = self._find_new_rows(decoded, segments_by_stream, parts, batch)
        _cut_chunks([result.new_rows for result in results], batch)
        started_at = seconds_since_boot()
        context = WriteContext(
            tables={stream: batch.tables[stream].files for stream in segments_by_stream},
            chunks=batch.cutter.chunks,
            unit_ids=decoded.unit_ids,
            late_before=[open_unit.late_before for open_unit in decoded.opened],
            append_numbers=append_numbers,
            other_rows=_merge_other_rows(results),
        )
        written = parts.map(partial(write_new_rows, context))
        files_by_stream = _collect(decoded.opened, written, batch)
        archived: dict[str, ArchivedRows] = {}
        for stream in segments_by_stream:
            files = files_by_stream.get(stream, [])
            if files:
                batch.fence()
                batch.tables[stream].commit_append(
                    files, append_numbers[stream], batch.number, started_at
                )
            newest = latest(*(result.newest_on_time.get(stream) for result in written))
            row_count = sum(file.rows for file in files)
            archived[stream] = ArchivedRows(row_count, None, files, newest)
        return archived

    def _find_new_rows(
        self,
        decoded: _DecodedBatch,
        segments_by_stream: Mapping[str, Sequence[DecodedSegment]],
        parts: Parts,
        batch: IngestBatch,
    ) -> list[BucketResult]:
        bounds: dict[str, list[int]] = {}
        buckets: dict[BucketKey, Bucket] = {}
        for stream, segments in segments_by_stream.items():
            row_count = sum(segment.rows for segment in segments)
            bucket_count = min(self._jobs.cores, row_count // _MIN_BUCKET_ROWS)
            bounds[stream] = divide_times(segments, bucket_count)
            for number, files in enumerate(
                _files_by_bucket(batch.tables[stream], segments, bounds[stream])
            ):
                buckets[stream, number] = Bucket(files)
        streams = [open_unit.unit.stream for open_unit in decoded.opened]
        groups = iter(assign_groups(decoded.segments, streams))
        context = IdentityContext(
            tables={stream: batch.tables[stream].files for stream in segments_by_stream},
            unit_ids=decoded.unit_ids,
            groups=[[next(groups) for _ in segments] for segments in decoded.segments_by_task],
            bounds=bounds,
            buckets=buckets,
            newest_chunk_start=batch.cutter.chunks[-1].from_ts,
            needs_times=_can_cut(segments_by_stream, batch),
        )
        return parts.shuffle(
            partial(split_by_bucket, context), list(buckets), partial(classify_bucket, context)
        )


def _read_summary(task: int, parts: Iterable[DecodedPart]) -> DecodeSummary:
    (summary,) = [part for part in parts if isinstance(part, DecodeSummary)]
    return summary


def _open_units(
    units: Sequence[SourceUnit],
    unit_ids: Sequence[int],
    segments_by_task: Sequence[Sequence[DecodedSegment]],
    batch: IngestBatch,
) -> list[OpenUnit]:
    """Open the units in order, with what was decoded of them."""
    segments_by_unit: defaultdict[int, list[DecodedSegment]] = defaultdict(list)
    for segments in segments_by_task:
        for segment in segments:
            segments_by_unit[segment.unit].append(segment)
    opened: list[OpenUnit] = []
    for position, (unit, unit_id) in enumerate(zip(units, unit_ids, strict=True)):
        open_unit = batch.open_unit(unit, unit_id)
        for segment in segments_by_unit[position]:
            open_unit.add_counts(read=segment.records)
            open_unit.fields = segment.fields
            open_unit.add_refused(segment.refused_lines)
            open_unit.newest = latest(open_unit.newest, segment.newest)
        batch.finish_reading(open_unit)
        opened.append(open_unit)
    return opened


def _time_range(segments: Sequence[DecodedSegment]) -> tuple[int, int]:
    """The oldest and the newest event time of segments with rows."""
    oldest = min(segment.oldest for segment in segments if segment.oldest is not None)
    newest = max(segment.newest for segment in segments if segment.newest is not None)
    return oldest, newest


def _files_by_bucket(
    table: StreamTable, segments: Sequence[DecodedSegment], bounds: Sequence[int]
) -> list[list[DataFile]]:
    """The archived files that overlap each bucket."""
    oldest, newest = _time_range(segments)
    lows = [oldest, *bounds]
    highs = [*bounds, newest + 1]
    return [table.data_files(low, high) for low, high in zip(lows, highs, strict=True)]


def _can_cut(
    segments_by_stream: Mapping[str, Sequence[DecodedSegment]], batch: IngestBatch
) -> bool:
    segments = [segment for group in segments_by_stream.values() for segment in group]
    oldest, newest = _time_range(segments)
    return batch.cutter.can_cut(sum(segment.rows for segment in segments), oldest, newest)


def _cut_chunks(new_rows: Sequence[Mapping[int, NewRows]], batch: IngestBatch) -> None:
    """Cut chunks after each group of new rows. `new_rows`: of the buckets, by group."""
    for group in sorted(set().union(*new_rows)):
        members = [by_group[group] for by_group in new_rows if group in by_group]
        times = [member.times for member in members if member.times is not None]
        if times:
            ts = np.concatenate(list(map(decompress_integers, times)))
            batch.cutter.cut(ts)
            batch.cutter.count(ts)
            continue
        for member in members:
            if member.rows:
                batch.cutter.count_rows(member.rows, member.oldest, member.newest)


def _merge_other_rows(results: Sequence[BucketResult]) -> dict[BlobKey, list[OtherRows]]:
    other_rows: defaultdict[BlobKey, list[OtherRows]] = defaultdict(list)
    for result in results:
        for blob, positions in result.other_rows.items():
            other_rows[blob].append(positions)
    return dict(other_rows)


def _collect(
    opened: Sequence[OpenUnit], written: Sequence[WriteResult], batch: IngestBatch
) -> dict[str, list[DataFile]]:
    """Count what tasks have written in the units. Returns the files by stream."""
    files: defaultdict[str, list[DataFile]] = defaultdict(list)
    for result in written:
        for stream, stream_files in result.files.items():
            files[stream] += stream_files
        for unit, counters in result.counters.items():
            opened[unit].counters += counters
        for unit, refused_lines in result.conflicts.items():
            opened[unit].add_refused(refused_lines)
        batch.chunks_with_late_rows |= result.chunks_with_late_rows
    return dict(files)
