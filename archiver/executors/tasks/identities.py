"""Second step of a batch: find the rows that are not new.

Rows of one identity have one event time. Therefore the rows of a range of event time are compared
with each other, and with the archived files that overlap it, by one task: the one that decoded
them, if no other task has rows of these times.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, cast

import numpy as np
from cachetools import LRUCache

from archiver.delta import ENTRY_DTYPE, DataFile, FileIdentities, TableFiles, look_up
from archiver.executors.grouping import is_within
from archiver.executors.tasks.blobs import Blob, event_times, read_entries, unpack
from archiver.executors.tasks.decode import DecodedPart
from archiver.ingest.classify import (
    READING_DTYPE,
    ArchivedMatches,
    Array,
    classify,
    distinct_integers,
)
from archiver.ingest.erased_again import record_erased

# Identities of archived files of a table in the memory of one worker process; 40 bytes each.
_MAX_CACHED_ROWS = 1_000_000
_MAX_TABLES = 16

_ROW_DTYPE = np.dtype([*ENTRY_DTYPE.descr, ("ts", "i8"), ("group", "i4"), ("row", "i4")])

BucketKey = tuple[str, int]
"""A stream, and the position of a range of event time."""

BlobKey = tuple[int, int]
"""The task that decoded a blob, and the position of the blob among those of the task."""


class BucketPart(NamedTuple):
    """The rows of a blob in a bucket, and their readings by earlier declarations.

    `arrival`: when the blob arrived.
    """

    arrival: int
    blob: BlobKey
    rows: bytes
    readings: bytes


@dataclass(frozen=True)
class Bucket:
    """A range of event time of a stream, and the archived files that overlap it."""

    files: Sequence[DataFile]


@dataclass(frozen=True)
class IdentityContext:
    """What all tasks of the job need.

    `unit_ids`: ledger ids of the units of the batch. `arrival`: by task, the position of each
    segment in the order of arrival. `groups`: by task, the group of rows of each segment.
    `bounds`: by stream, the event times that divide the buckets. `shared_times`: by stream, those
    of which several tasks may have rows, see `find_shared_times`. `newest_chunk_start`: None for
    the beginning of time.
    `needs_times`: whether a chunk may be cut.
    """

    tables: Mapping[str, TableFiles]
    unit_ids: Sequence[int]
    arrival: Sequence[Sequence[int]]
    groups: Sequence[Sequence[int]]
    bounds: Mapping[str, Sequence[int]]
    shared_times: Mapping[str, Sequence[int]]
    buckets: Mapping[BucketKey, Bucket]
    newest_chunk_start: int | None
    needs_times: bool

    @property
    def has_shared_times(self) -> bool:
        """Whether rows of different tasks may have to be compared."""
        return any(self.shared_times.values())


@dataclass(frozen=True)
class NewRows:
    """New rows of a group in the newest chunk, with event times from `oldest` to `newest`.

    `times`: the event times of all new rows of the group, see `compress_integers`; None if no chunk
    can be cut.
    """

    rows: int = 0
    oldest: int = 0
    newest: int = 0
    times: bytes | None = None


@dataclass(frozen=True)
class OtherRows:
    """The positions of rows of a blob that are not new, see `compress_integers`.

    `erased_again`: of the duplicates, those of erased rows.
    """

    replayed: bytes
    duplicates: bytes
    conflicts: bytes
    erased_again: bytes


@dataclass
class BucketResult:
    """What the driver learns of a bucket."""

    new_rows: dict[int, NewRows] = field(default_factory=dict)
    other_rows: dict[BlobKey, OtherRows] = field(default_factory=dict)


def compress_integers(values: Array) -> bytes:
    """Ascending integers as compressed bytes."""
    if not len(values):
        return b""
    return zlib.compress(np.diff(values, prepend=0).astype("<i8").tobytes(), 1)


def decompress_integers(content: bytes) -> Array:
    """The integers of `compress_integers`."""
    if not content:
        return np.empty(0, dtype="i8")
    return np.cumsum(np.frombuffer(zlib.decompress(content), dtype="<i8"))


def split_by_bucket(
    context: IdentityContext, task: int, parts: Iterable[DecodedPart]
) -> Iterator[tuple[BucketKey, BucketPart | BucketResult]]:
    """The identities of the rows of a task, divided among the buckets.

    Rows of times that no other task has are classified: only the results are yielded.
    """
    own_rows: dict[BucketKey, list[BucketPart]] = {}
    blobs = (part for part in parts if isinstance(part, Blob))
    for number, blob in enumerate(blobs):
        rows = _read_rows(context, task, blob)
        readings = blob.read_readings()
        first_segment, _ = blob.segments[0]
        arrival = context.arrival[task][first_segment]
        buckets = np.searchsorted(context.bounds[blob.stream], rows["ts"], side="right")
        is_shared = is_within(context.shared_times[blob.stream], rows["ts"])
        for bucket in distinct_integers(buckets):
            key = blob.stream, bucket
            is_in_bucket = buckets == bucket
            for is_own in (False, True):
                is_selected = is_in_bucket & (is_shared != is_own)
                if not is_selected.any():
                    continue
                part = BucketPart(
                    arrival,
                    (task, number),
                    rows[is_selected].tobytes(),
                    readings[is_selected[readings["row"]]].tobytes(),
                )
                if is_own:
                    own_rows.setdefault(key, []).append(part)
                else:
                    yield key, part
    for key, members in own_rows.items():
        yield key, _classify_rows(context, key, members)


def classify_task(
    context: IdentityContext, task: int, parts: Iterable[DecodedPart]
) -> list[BucketResult]:
    """Classify the rows of a task. No other task has rows of these times."""
    results = [result for _, result in split_by_bucket(context, task, parts)]
    assert all(isinstance(result, BucketResult) for result in results)
    return cast(list[BucketResult], results)


def classify_bucket(
    context: IdentityContext, key: BucketKey, values: Iterable[BucketPart | BucketResult]
) -> list[BucketResult]:
    """Classify the rows of a bucket that are not classified. `values`: of its tasks, in any order."""
    results: list[BucketResult] = []
    parts: list[BucketPart] = []
    for value in values:
        if isinstance(value, BucketResult):
            results.append(value)
        else:
            parts.append(value)
    if parts:
        results.append(_classify_rows(context, key, parts))
    return results


def merge_other_rows(results: Iterable[BucketResult]) -> dict[BlobKey, list[OtherRows]]:
    """The rows that are not new, by blob."""
    other_rows: dict[BlobKey, list[OtherRows]] = {}
    for result in results:
        for blob, positions in result.other_rows.items():
            other_rows.setdefault(blob, []).append(positions)
    return other_rows


def _read_rows(context: IdentityContext, task: int, blob: Blob) -> Array:
    table = unpack(blob)
    rows = np.empty(len(table), dtype=_ROW_DTYPE)
    entries = read_entries(table, context.unit_ids)
    for name in ENTRY_DTYPE.names or ():
        rows[name] = entries[name]
    rows["ts"] = event_times(table, context.tables[blob.stream].schema)
    groups = context.groups[task]
    segment_groups = [groups[segment] for segment, _ in blob.segments]
    rows["group"] = np.repeat(segment_groups, [count for _, count in blob.segments])
    rows["row"] = np.arange(len(table))
    return rows


def _classify_rows(
    context: IdentityContext, key: BucketKey, parts: Iterable[BucketPart]
) -> BucketResult:
    """Compare rows of a bucket with each other and with the archive. `parts`: in any order."""
    ordered = sorted(parts, key=attrgetter("arrival", "blob"))
    arrays = [np.frombuffer(part.rows, dtype=_ROW_DTYPE) for part in ordered]
    rows = np.concatenate(arrays)
    stream, _ = key
    entries = np.empty(len(rows), dtype=ENTRY_DTYPE)
    for name in ENTRY_DTYPE.names or ():
        entries[name] = rows[name]
    files = context.buckets[key].files
    readings = _concat_readings(ordered, arrays)
    matches = _find_archived(context.tables[stream], files, entries, rows["ts"], readings)
    record_erased(matches, context.tables[stream].erased, rows["ts"], readings)
    classification = classify(entries, matches.is_archived, matches.archived, matches.is_erased)
    result = BucketResult()
    start = 0
    for bucket_part, blob_rows in zip(ordered, arrays, strict=True):
        part = slice(start, start + len(blob_rows))
        start = part.stop
        if not classification.new[part].all():
            result.other_rows[bucket_part.blob] = OtherRows(
                replayed=compress_integers(blob_rows["row"][classification.replayed[part]]),
                duplicates=compress_integers(blob_rows["row"][classification.duplicate[part]]),
                conflicts=compress_integers(blob_rows["row"][classification.conflict[part]]),
                erased_again=compress_integers(blob_rows["row"][classification.erased_again[part]]),
            )
    new_rows = rows[classification.new]
    for group in distinct_integers(new_rows["group"]):
        ts = new_rows["ts"][new_rows["group"] == group]
        result.new_rows[group] = _describe_new(context, ts)
    return result


def _concat_readings(parts: Sequence[BucketPart], rows_by_part: Sequence[Array]) -> Array:
    """The readings of all parts, by position in their concatenated rows."""
    start = 0
    concatenated: list[Array] = []
    for part, rows in zip(parts, rows_by_part, strict=True):
        readings = np.frombuffer(part.readings, dtype=READING_DTYPE).copy()
        readings["row"] = start + np.searchsorted(rows["row"], readings["row"])
        start += len(rows)
        concatenated.append(readings)
    return np.concatenate(concatenated)


def _describe_new(context: IdentityContext, ts: Array) -> NewRows:
    times = compress_integers(np.sort(ts)) if context.needs_times else None
    if context.newest_chunk_start is not None:
        ts = ts[ts >= context.newest_chunk_start]
    if not len(ts):
        return NewRows(times=times)
    return NewRows(len(ts), int(ts.min()), int(ts.max()), times)


def _find_archived(
    table: TableFiles, files: Sequence[DataFile], entries: Array, ts: Array, readings: Array
) -> ArchivedMatches:
    """Find the archived rows of the identities of rows. `readings`: by earlier declarations."""
    matches = ArchivedMatches.none_of(entries)
    current = len(table.schema.earlier)
    order = np.argsort(ts, kind="stable") if files else np.empty(0, dtype="i8")
    sorted_ts = ts[order]
    lookups = _lookups(table)
    for file in files:
        first = np.searchsorted(sorted_ts, file.oldest, side="left")
        last = np.searchsorted(sorted_ts, file.newest, side="right")
        candidates = order[first:last]
        if not len(candidates):
            continue
        times = np.unique(np.concatenate([ts[candidates], readings["ts"]]))
        for declaration, file_entries in lookups.find_at(file, times).items():
            if declaration == current:
                rows, archived = look_up(file_entries, entries["id"], candidates)
                matches.record(rows, archived)
            else:
                of_declaration = np.flatnonzero(readings["declaration"] == declaration)
                positions, archived = look_up(file_entries, readings["id"], of_declaration)
                matches.record_earlier(readings[positions], archived)
    return matches


# By table, in this worker process.
_LOOKUPS: LRUCache[str, FileIdentities] = LRUCache(_MAX_TABLES)


def _lookups(table: TableFiles) -> FileIdentities:
    lookups = _LOOKUPS.get(str(table.storage))
    if lookups is None or lookups.schema != table.schema:
        lookups = FileIdentities(table, _MAX_CACHED_ROWS)
        _LOOKUPS[str(table.storage)] = lookups
    return lookups
