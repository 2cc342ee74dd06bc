"""What tasks need to identify and write the new rows of a decoded batch. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from archiver.chunks import Chunk
from archiver.delta import DataFile, TableFiles
from archiver.executors.decoded_batch import DecodedBatch
from archiver.executors.grouping import divide_times
from archiver.executors.tasks.decode import DecodedSegment
from archiver.executors.tasks.identities import Bucket, BucketKey, IdentityContext
from archiver.executors.tasks.write import WriteContext
from archiver.time_range import TimeRange

_MIN_BUCKET_ROWS = 25_000

FileListing = Callable[[str, TimeRange], Sequence[DataFile]]
"""Files of a stream that may have rows in a range of event time, except those of other programs."""

FillCheck = Callable[[int, int, int], bool]
"""Whether new rows may fill the newest chunk, by their number, oldest and newest event time."""


def plan_identities(
    decoded: DecodedBatch,
    *,
    tables: Mapping[str, TableFiles],
    list_files: FileListing,
    chunks: Sequence[Chunk],
    may_fill_chunk: FillCheck,
    cores: int,
) -> IdentityContext:
    """What tasks need to identify the new rows of a batch that has rows."""
    segments_by_stream = decoded.segments_by_stream
    bounds: dict[str, list[int]] = {}
    buckets: dict[BucketKey, Bucket] = {}
    for stream, segments in segments_by_stream.items():
        row_count = sum(segment.rows for segment in segments)
        bounds[stream] = divide_times(segments, min(cores, row_count // _MIN_BUCKET_ROWS))
        oldest, newest = event_time_range(segments)
        lows = [oldest, *bounds[stream]]
        highs = [*bounds[stream], newest + 1]
        for number, ends in enumerate(zip(lows, highs, strict=True)):
            buckets[stream, number] = Bucket(list_files(stream, TimeRange(*ends)))
    all_segments = list(chain.from_iterable(segments_by_stream.values()))
    total_rows = sum(segment.rows for segment in all_segments)
    return IdentityContext(
        tables={stream: tables[stream] for stream in segments_by_stream},
        unit_ids=decoded.unit_ids,
        arrival=decoded.arrival_by_task(),
        groups=decoded.groups_by_task(),
        bounds=bounds,
        shared_times=decoded.shared_times(),
        buckets=buckets,
        newest_chunk_start=chunks[-1].from_ts,
        needs_times=may_fill_chunk(total_rows, *event_time_range(all_segments)),
    )


def plan_writes(
    decoded: DecodedBatch,
    identities: IdentityContext,
    chunks: Sequence[Chunk],
    append_numbers: Mapping[str, int],
) -> WriteContext:
    """What tasks need to write the new rows. `append_numbers`: by stream."""
    return WriteContext(
        tables=identities.tables,
        chunks=chunks,
        unit_ids=decoded.unit_ids,
        late_rules=decoded.late_rules,
        append_numbers=append_numbers,
        other_rows={},
    )


def event_time_range(segments: Sequence[DecodedSegment]) -> tuple[int, int]:
    """The oldest and the newest event time of segments with rows."""
    oldest = min(segment.oldest for segment in segments if segment.oldest is not None)
    newest = max(segment.newest for segment in segments if segment.newest is not None)
    return oldest, newest
