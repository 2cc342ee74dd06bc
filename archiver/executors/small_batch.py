"""A batch of one task in one job: the task decodes the units, finds the new rows and writes them.

The task plans what the driver plans between the jobs of a larger batch, with the same functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from archiver.chunks import Chunk
from archiver.delta import DataFile, TableFiles
from archiver.executors.batch_plan import FillCheck, event_time_range, plan_identities, plan_writes
from archiver.executors.decoded_batch import DecodedBatch, RegisteredUnits, open_units
from archiver.executors.tasks.decode import DecodedPart, DecodedSegment, DecodeSummary, read_summary
from archiver.executors.tasks.identities import BucketResult, IdentityContext
from archiver.executors.tasks.write import WriteContext, WriteResult, classify_and_write
from archiver.ingest.engines import StreamProgress
from archiver.time_range import TimeRange
from archiver.times import Micros


@dataclass(frozen=True, kw_only=True)
class SmallBatchContext:
    """What the task of the job needs.

    `progress`: before the batch. `files`: by stream, the archived files that may have rows since
    `files_since`; None: all. `append_numbers`: by stream.
    """

    units: RegisteredUnits
    progress: StreamProgress
    tables: Mapping[str, TableFiles]
    files: Mapping[str, Sequence[DataFile]]
    files_since: Mapping[str, Micros | None]
    chunks: Sequence[Chunk]
    may_fill_chunk: FillCheck
    append_numbers: Mapping[str, int]

    def plan(
        self, segments: Sequence[DecodedSegment]
    ) -> tuple[IdentityContext, WriteContext] | None:
        """How the new rows are identified and written.

        None if there are no rows, or some before `files_since`, or if a chunk may be cut.
        """
        opened = open_units(self.units, [segments], self.progress)
        decoded = DecodedBatch(opened, [segments])
        segments_by_stream = decoded.segments_by_stream
        if not segments_by_stream:
            return None
        for stream, stream_segments in segments_by_stream.items():
            since = self.files_since[stream]
            if since is not None and event_time_range(stream_segments)[0] < since:
                return None
        identities = plan_identities(
            decoded,
            tables=self.tables,
            list_files=self._list_files,
            chunks=self.chunks,
            may_fill_chunk=self.may_fill_chunk,
            cores=1,
        )
        if identities.needs_times:
            return None
        return identities, plan_writes(decoded, identities, self.chunks, self.append_numbers)

    def _list_files(self, stream: str, times: TimeRange) -> list[DataFile]:
        return [file for file in self.files[stream] if file.overlaps(times)]


def archive_small_batch(
    context: SmallBatchContext, task: int, parts: Iterable[DecodedPart]
) -> tuple[DecodeSummary, tuple[list[BucketResult], WriteResult] | None]:
    """Archive what the task has decoded.

    Returns the summary, and what was written; None if nothing, see `SmallBatchContext.plan`.
    """
    all_parts = list(parts)
    summary = read_summary(task, all_parts)
    plan = context.plan(summary.segments)
    if plan is None:
        return summary, None
    identities, writes = plan
    return summary, classify_and_write(identities, writes, task, all_parts)
