"""Archives source units on executors; the driver plans, cuts chunks and commits."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter

import numpy as np

from archiver.clock import seconds_since_boot
from archiver.delta import DataFile
from archiver.executors.batch_plan import plan_identities, plan_writes
from archiver.executors.decoded_batch import DecodedBatch, RegisteredUnits, open_units
from archiver.executors.jobs import Jobs, Parts
from archiver.executors.small_batch import SmallBatchContext, archive_small_batch
from archiver.executors.task_planner import TaskPlanner
from archiver.executors.tasks.decode import (
    DecodeContext,
    DecodeSummary,
    RecordFormat,
    decode_pieces,
    decode_records,
    read_summary,
)
from archiver.executors.tasks.identities import (
    BucketResult,
    IdentityContext,
    NewRows,
    classify_bucket,
    classify_task,
    decompress_integers,
    merge_other_rows,
    split_by_bucket,
)
from archiver.executors.tasks.write import (
    WriteContext,
    WriteResult,
    classify_and_write,
    write_new_rows,
)
from archiver.ingest import OpenUnit, SourceUnit
from archiver.ingest.classify import latest
from archiver.ingest.engines import (
    ArchivedRows,
    IngestBatch,
    RecordSizes,
    RegisteredUnit,
    TopicRecords,
)
from archiver.ingest.topic_records import partition_place, range_unit_name
from archiver.time_range import TimeRange
from archiver.times import Micros

_MAX_SMALL_BATCH_FILES = 200
"""Archived files of a stream that are described to the task of a small batch, in 100 bytes each."""


class ExecutorIngest:
    """Three jobs for a batch: decode pieces of the units, find the rows that are new, write them.

    If no two tasks have rows of the same event time, and no chunk can be cut, the second and third
    are one job. If there is one task, no chunk can be cut, and the rows are newer than all but the
    newest archived files, all are one job.
    The driver holds no rows: it learns at most the event time of each new row, and the position of
    each row that is not new. `sizes` estimates how many rows a unit has.
    """

    def __init__(self, jobs: Jobs, sizes: RecordSizes) -> None:
        self._jobs = jobs
        self._planner = TaskPlanner(jobs, sizes)

    @property
    def is_warm(self) -> bool:
        """Whether worker processes have started."""
        return self._jobs.is_warm

    def warm_up(self) -> None:
        """Start worker processes in the background, unless they were started."""
        self._jobs.warm_up()

    def archive(self, units: Sequence[SourceUnit], batch: IngestBatch) -> dict[str, ArchivedRows]:
        """Archive the units that are not finished."""
        with self._counted_tasks(batch):
            return self._archive(units, batch)

    def _archive(self, units: Sequence[SourceUnit], batch: IngestBatch) -> dict[str, ArchivedRows]:
        units_by_position: dict[int, tuple[SourceUnit, RegisteredUnit]] = {}
        for unit, registered in zip(units, batch.register_units(units), strict=True):
            if registered is not None:
                units_by_position[len(units_by_position)] = unit, registered
        unfinished = [unit for unit, _ in units_by_position.values()]
        tasks = self._planner.plan(unfinished)
        if not tasks:
            open_units(units_by_position, [], batch)  # files without lines
            return {}
        parts = self._jobs.keep(
            partial(decode_pieces, _decode_context(units_by_position, batch)), tasks
        )
        try:
            if len(tasks) == 1:
                return self._archive_small(units_by_position, parts, batch)
            summaries = parts.map(read_summary)
            decoded = _open_batch(units_by_position, summaries, batch)
            return self._archive_decoded(decoded, parts, batch)
        finally:
            parts.release()

    def _archive_small(
        self, units: RegisteredUnits, parts: Parts, batch: IngestBatch
    ) -> dict[str, ArchivedRows]:
        """Archive the batch of one task, in one job if the task can plan it."""
        context = _small_batch_context(units, batch)
        started_at = seconds_since_boot()
        ((summary, written),) = parts.map(partial(archive_small_batch, context))
        decoded = _open_batch(units, [summary], batch)
        if written is None:
            return self._archive_decoded(decoded, parts, batch)
        results, write_result = written
        _cut_chunks([result.new_rows for result in results], batch)
        return _commit(decoded, [write_result], context.append_numbers, started_at, batch)

    def archive_records(self, records: TopicRecords, batch: IngestBatch) -> dict[str, ArchivedRows]:
        """Archive the records of some ranges of offsets."""
        with self._counted_tasks(batch):
            record_format = RecordFormat(
                stream=records.stream,
                format=records.format,
                source=records.source,
                fields=records.fields,
                ranges=records.ranges,
            )
            schemas = {records.stream: batch.tables[records.stream].schema}
            # The ranges of records are known, and registered, after they are decoded.
            clocks = batch.partition_clocks(records.stream)
            context = DecodeContext(
                schemas=schemas,
                now=batch.now,
                expired_before={records.stream: batch.expired_before(records.stream)},
                clocks={int(name): clock for name, clock in clocks.items()},
                clock=batch.clock(records.stream),
            )
            parts = self._jobs.keep_frame(
                partial(decode_records, context, record_format), records.frame
            )
            try:
                return self._archive_parts(records, parts, batch)
            finally:
                parts.release()

    def _archive_parts(
        self, records: TopicRecords, parts: Parts, batch: IngestBatch
    ) -> dict[str, ArchivedRows]:
        summaries = parts.map(read_summary)
        records.verify()
        tombstones: dict[int, int] = {}
        for summary in summaries:
            assert tombstones.keys().isdisjoint(summary.tombstones), "a partition in several tasks"
            tombstones |= summary.tombstones
        units: dict[int, tuple[SourceUnit, RegisteredUnit]] = {}
        for partition in sorted(records.ranges):
            unit = _partition_unit(records, partition, tombstones.get(partition, 0))
            (registered,) = batch.register_units([unit])
            assert registered is not None, "progress and state of a unit change together"
            units[partition] = unit, registered
        return self._archive_decoded(_open_batch(units, summaries, batch), parts, batch)

    @contextmanager
    def _counted_tasks(self, batch: IngestBatch) -> Iterator[None]:
        """Count the tasks of a batch that succeeds."""
        earlier_tasks = self._jobs.task_count
        yield
        batch.task_count = self._jobs.task_count - earlier_tasks
        batch.executor_count = self._jobs.executor_count

    def _archive_decoded(
        self, decoded: DecodedBatch, parts: Parts, batch: IngestBatch
    ) -> dict[str, ArchivedRows]:
        segments_by_stream = decoded.segments_by_stream
        if not segments_by_stream:
            return {}
        # Before the files are listed: the numbers also show that no other process has appended.
        append_numbers = {
            stream: batch.tables[stream].start_append() for stream in segments_by_stream
        }
        identities = plan_identities(
            decoded,
            tables={stream: batch.tables[stream].files for stream in segments_by_stream},
            list_files=lambda stream, times: batch.tables[stream].accounted_files(time_range=times),
            chunks=batch.cutter.chunks,
            may_fill_chunk=batch.cutter.may_fill,
            cores=self._jobs.cores,
        )
        context = plan_writes(decoded, identities, batch.cutter.chunks, append_numbers)
        started_at = seconds_since_boot()
        written: list[WriteResult]
        if not identities.has_shared_times and not identities.needs_times:
            results, written = _classify_and_write(parts, identities, context)
            _cut_chunks([result.new_rows for result in results], batch)
        else:
            results = _classify(parts, identities)
            _cut_chunks([result.new_rows for result in results], batch)
            context = replace(
                context, chunks=batch.cutter.chunks, other_rows=merge_other_rows(results)
            )
            written = parts.map(partial(write_new_rows, context))
        return _commit(decoded, written, append_numbers, started_at, batch)


def _open_batch(
    units: RegisteredUnits, summaries: Sequence[DecodeSummary], batch: IngestBatch
) -> DecodedBatch:
    """Open the units in the batch."""
    segments_by_task = [summary.segments for summary in summaries]
    return DecodedBatch(open_units(units, segments_by_task, batch), segments_by_task)


def _small_batch_context(units: RegisteredUnits, batch: IngestBatch) -> SmallBatchContext:
    """What the task of a batch needs."""
    streams = {unit.stream for unit, _ in units.values()}
    # Before the files are listed: the numbers also show that no other process has appended.
    append_numbers = {stream: batch.tables[stream].start_append() for stream in streams}
    files: dict[str, Sequence[DataFile]] = {}
    files_since: dict[str, Micros | None] = {}
    for stream in streams:
        watermark = batch.progress.watermarks[stream]
        candidates = batch.tables[stream].accounted_files(time_range=TimeRange(watermark))
        newest_first = sorted(candidates, key=attrgetter("newest"), reverse=True)
        files[stream] = newest_first[:_MAX_SMALL_BATCH_FILES]
        files_since[stream] = watermark
        if len(candidates) > _MAX_SMALL_BATCH_FILES:
            files_since[stream] = newest_first[_MAX_SMALL_BATCH_FILES].newest + 1
    return SmallBatchContext(
        units=units,
        progress=batch.progress,
        tables={stream: batch.tables[stream].files for stream in streams},
        files=files,
        files_since=files_since,
        chunks=batch.cutter.chunks,
        may_fill_chunk=batch.cutter.may_fill,
        append_numbers=append_numbers,
    )


def _decode_context(units: RegisteredUnits, batch: IngestBatch) -> DecodeContext:
    return DecodeContext(
        schemas={unit.stream: batch.tables[unit.stream].schema for unit, _ in units.values()},
        now=batch.now,
        expired_before={
            unit.stream: batch.expired_before(unit.stream) for unit, _ in units.values()
        },
        clocks={position: registered.clock for position, (_, registered) in units.items()},
    )


def _partition_unit(records: TopicRecords, partition: int, tombstones: int) -> SourceUnit:
    """The unit of the records of a partition, which tasks have read."""
    offsets = records.ranges[partition]
    return SourceUnit(
        stream=records.stream,
        name=range_unit_name(records.source, str(partition), offsets),
        format=records.format,
        read=lambda: iter(()),
        fields=records.fields,
        partition=str(partition),
        next_offset=offsets.end,
        tombstones=tombstones,
        place=partition_place(records.source, str(partition)),
    )


def _classify(parts: Parts, identities: IdentityContext) -> list[BucketResult]:
    """Find the rows that are not new. Rows of shared times are sent from task to task."""
    if not identities.has_shared_times:
        return list(chain.from_iterable(parts.map(partial(classify_task, identities))))
    results = parts.shuffle(
        partial(split_by_bucket, identities),
        list(identities.buckets),
        partial(classify_bucket, identities),
    )
    return list(chain.from_iterable(results))


def _classify_and_write(
    parts: Parts, identities: IdentityContext, context: WriteContext
) -> tuple[list[BucketResult], list[WriteResult]]:
    """Find the rows that are new and write them."""
    results: list[BucketResult] = []
    written: list[WriteResult] = []
    for task_results, task_written in parts.map(partial(classify_and_write, identities, context)):
        results += task_results
        written.append(task_written)
    return results, written


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


def _commit(
    decoded: DecodedBatch,
    written: Sequence[WriteResult],
    append_numbers: Mapping[str, int],
    started_at: float,
    batch: IngestBatch,
) -> dict[str, ArchivedRows]:
    """Count what tasks have written, and commit their files.

    `append_numbers`: by stream. `started_at`: when the first file was started, in seconds of
    `archiver.clock`.
    """
    files_by_stream = _collect(decoded.opened, written, batch)
    archived: dict[str, ArchivedRows] = {}
    for stream in decoded.segments_by_stream:
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


def _collect(
    opened: Mapping[int, OpenUnit], written: Sequence[WriteResult], batch: IngestBatch
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
