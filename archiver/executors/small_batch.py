"""A batch of one task in one job: the task decodes the units, finds the new rows and writes them.

The driver tells the task beforehand what it plans between the jobs of a larger batch. That fails,
and other jobs follow, if rows are late or a chunk may be cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from archiver.chunks import Chunk
from archiver.delta import DataFile, TableFiles
from archiver.executors.batch_plan import CanCut, plan_identities, plan_writes, time_range
from archiver.executors.decoded_batch import DecodedBatch, open_units
from archiver.executors.tasks.decode import DecodedPart, DecodedSegment, DecodeSummary, find_summary
from archiver.executors.tasks.identities import BucketResult, IdentityContext
from archiver.executors.tasks.write import WriteContext, WriteResult, classify_and_write
from archiver.ingest import SourceUnit
from archiver.ingest.engines import BatchProgress, IngestBatch
from archiver.time_range import TimeRange
from archiver.times import Micros

_MAX_FILES = 200
"""Archived files that are described to the task; each takes about 100 bytes."""


@dataclass(frozen=True)
class SmallBatch:
    """What the task needs to plan and to write.

    `units`: with their ledger ids, by position. `progress`: before the batch. `files`: by stream,
    those that may have rows since `files_since`; None: all.
    """

    units: Mapping[int, tuple[SourceUnit, int]]
    progress: BatchProgress
    tables: Mapping[str, TableFiles]
    files: Mapping[str, Sequence[DataFile]]
    files_since: Mapping[str, Micros | None]
    chunks: Sequence[Chunk]
    can_cut: CanCut
    append_numbers: Mapping[str, int]

    def plan(
        self, segments: Sequence[DecodedSegment]
    ) -> tuple[IdentityContext, WriteContext] | None:
        """How the rows are found and written; None if the driver has to plan it."""
        opened = open_units(self.units, [segments], self.progress)
        decoded = DecodedBatch(opened, [segments])
        segments_by_stream = decoded.segments_by_stream()
        for stream, stream_segments in segments_by_stream.items():
            since = self.files_since[stream]
            if since is not None and time_range(stream_segments)[0] < since:
                return None
        if not segments_by_stream:
            return None
        identities = plan_identities(
            decoded, self.tables, self._list_files, self.chunks, self.can_cut, cores=1
        )
        if identities.needs_times:
            return None
        return identities, plan_writes(decoded, identities, self.chunks, self.append_numbers)

    def _list_files(self, stream: str, time_range: TimeRange) -> list[DataFile]:
        return [file for file in self.files[stream] if file.overlaps(time_range)]


def plan_small_batch(
    units: Mapping[int, tuple[SourceUnit, int]], batch: IngestBatch
) -> SmallBatch | None:
    """What the task of a batch needs; None if it would have to know too many files.

    `units`: with their ledger ids, by position.
    """
    streams = {unit.stream for unit, _ in units.values()}
    # Before the files are listed: the numbers also show that no other process has appended.
    append_numbers = {stream: batch.tables[stream].start_append() for stream in streams}
    files_since = {stream: batch.progress.watermarks[stream] for stream in streams}
    files = {
        stream: batch.tables[stream].accounted_files(time_range=TimeRange(since))
        for stream, since in files_since.items()
    }
    if sum(map(len, files.values())) > _MAX_FILES:
        return None
    return SmallBatch(
        units=units,
        progress=batch.progress,
        tables={stream: batch.tables[stream].files for stream in streams},
        files=files,
        files_since=files_since,
        chunks=batch.cutter.chunks,
        can_cut=batch.cutter.can_cut,
        append_numbers=append_numbers,
    )


def archive_small_batch(
    context: SmallBatch, task: int, parts: Iterable[DecodedPart]
) -> tuple[DecodeSummary, tuple[list[BucketResult], WriteResult] | None]:
    """Archive what the task has decoded. Returns the summary, and None if it cannot plan that."""
    all_parts = list(parts)
    summary = find_summary(all_parts)
    plan = context.plan(summary.segments)
    if plan is None:
        return summary, None
    identities, writes = plan
    return summary, classify_and_write(identities, writes, task, all_parts)
