"""Third step of a batch: write the new rows of its blobs to data files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from archiver.chunks import Chunk, locate
from archiver.delta import DataFile, TableFiles
from archiver.errors import SourceUnreachable
from archiver.executors.tasks.blobs import RAW_COLUMN, Blob, event_times, unit_positions, unpack
from archiver.executors.tasks.decode import DecodedPart, DecodeTask
from archiver.executors.tasks.identities import (
    BlobKey,
    BucketResult,
    IdentityContext,
    OtherRows,
    classify_task,
    decompress_integers,
    merge_other_rows,
)
from archiver.executors.tasks.reading import read_raw_lines
from archiver.ingest import BATCH_RECORDS, Counters, LateRows, LateRule
from archiver.ingest.classify import Array, Mask, distinct_integers, latest
from archiver.ingest.decoding import RefusedLine
from archiver.ingest.open_unit import CONFLICT_DETAIL


@dataclass(frozen=True)
class WriteContext:
    """What all tasks of the job need.

    `unit_ids`: ledger ids of the units of the batch; `late_rules`: of the units.
    `append_numbers`: by stream. `other_rows`: by task and blob, the rows that are not new.
    """

    tables: Mapping[str, TableFiles]
    chunks: Sequence[Chunk]
    unit_ids: Sequence[int]
    late_rules: Sequence[LateRule]
    append_numbers: Mapping[str, int]
    other_rows: Mapping[BlobKey, Sequence[OtherRows]]


@dataclass
class WriteResult:
    """What the driver learns of a task.

    `newest_on_time`: by stream, the newest event time of archived rows that are not late.
    """

    files: dict[str, list[DataFile]] = field(default_factory=dict)
    counters: dict[int, Counters] = field(default_factory=dict)
    conflicts: dict[int, list[RefusedLine]] = field(default_factory=dict)
    chunks_with_late_rows: set[int] = field(default_factory=set)
    newest_on_time: dict[str, int] = field(default_factory=dict)


class _LateFlags:
    """Flags the late rows of units, whose rows are passed in order."""

    def __init__(self, rules: Sequence[LateRule]) -> None:
        self._rules = rules
        self._newest: dict[int, int | None] = {}

    def needs_keys(self, unit: int) -> bool:
        """Whether the keys of the rows of a unit matter."""
        return bool(self._rules[unit].closed_keys)

    def flag(self, unit: int, rows: pa.Table, key: Sequence[str], ts: Array) -> LateRows:
        """The late rows among the next rows of a unit."""
        rule = self._rules[unit]
        newest = self._newest.get(unit)
        if rule.lateness is not None:
            self._newest[unit] = latest(newest, rule.newest_not_ahead(ts))
        return rule.flag_late_rows(rows, key, ts, newest)


def write_new_rows(context: WriteContext, task: int, parts: Iterable[DecodedPart]) -> WriteResult:
    """Write the new rows of a task, and count all of its rows. `parts`: see `decode_pieces`."""
    result = WriteResult()
    decode_task: DecodeTask | None = None
    number = -1  # of the blob
    pending: list[pa.Table] = []
    pending_stream = ""
    conflicts: dict[int, list[int]] = {}
    late_flags = _LateFlags(context.late_rules)
    for part in parts:
        if isinstance(part, DecodeTask):
            decode_task = part
        if not isinstance(part, Blob):
            continue
        blob = part
        number += 1
        if pending and (
            blob.stream != pending_stream or sum(map(len, pending)) >= BATCH_RECORDS // 2
        ):
            _write(context, pending_stream, pending, result)
            pending = []
        pending_stream = blob.stream
        other_rows = context.other_rows.get((task, number), ())
        new_rows = _process_blob(context, blob, other_rows, late_flags, result, conflicts)
        if len(new_rows):
            pending.append(new_rows)
    if pending:
        _write(context, pending_stream, pending, result)
    if conflicts:
        assert decode_task is not None
        _read_conflicts(decode_task, conflicts, result)
    return result


def classify_and_write(
    identities: IdentityContext, context: WriteContext, task: int, parts: Iterable[DecodedPart]
) -> tuple[list[BucketResult], WriteResult]:
    """Find and write the new rows of a task, if no other task has rows of these times."""
    all_parts = list(parts)
    results = classify_task(identities, task, all_parts)
    complete_context = replace(context, other_rows=merge_other_rows(results))
    return results, write_new_rows(complete_context, task, all_parts)


def _process_blob(
    context: WriteContext,
    blob: Blob,
    other_rows: Sequence[OtherRows],
    late_flags: _LateFlags,
    result: WriteResult,
    conflicts: dict[int, list[int]],
) -> pa.Table:
    """Count the rows of a blob. Returns the new ones with the columns of the archive.

    `conflicts`: gets the lines in conflict whose bytes are to be read again, by unit.
    """
    rows = unpack(blob)
    schema = context.tables[blob.stream].schema
    ts = event_times(rows, schema)
    units = unit_positions(rows)
    is_replayed = _mask(len(rows), [other.replayed for other in other_rows])
    is_duplicate = _mask(len(rows), [other.duplicates for other in other_rows])
    is_erased_again = _mask(len(rows), [other.erased_again for other in other_rows])
    is_conflict = _mask(len(rows), [other.conflicts for other in other_rows])
    is_new = ~(is_replayed | is_duplicate | is_conflict)
    is_archived = is_new | is_replayed
    is_late = np.zeros(len(rows), dtype=bool)
    for unit in distinct_integers(units):
        in_unit = units == unit
        of_unit = rows.filter(pa.array(in_unit)) if late_flags.needs_keys(unit) else rows
        late_rows = late_flags.flag(unit, of_unit, schema.key, ts[in_unit])
        is_late[in_unit] = late_rows.late
        counters = Counters(
            archived=int(is_archived[in_unit].sum()),
            late=int((is_archived & is_late)[in_unit].sum()),
            late_by_ahead=int((is_archived[in_unit] & late_rows.by_ahead).sum()),
            duplicates=int(is_duplicate[in_unit].sum()),
            replayed=int(is_replayed[in_unit].sum()),
            replayed_late=int((is_replayed & is_late)[in_unit].sum()),
            erased_again=int(is_erased_again[in_unit].sum()),
        )
        result.counters[unit] = result.counters.get(unit, Counters()) + counters
    for position in np.flatnonzero(is_conflict).tolist():
        line = rows["_line"][position].as_py()
        unit = int(units[position])
        if RAW_COLUMN in rows.column_names:
            raw = rows[RAW_COLUMN][position].as_py()
            refused = RefusedLine(line, "conflict", CONFLICT_DETAIL, raw)
            result.conflicts.setdefault(unit, []).append(refused)
        else:
            conflicts.setdefault(unit, []).append(line)
    chunk_ids = locate(context.chunks, ts)
    result.chunks_with_late_rows.update(np.unique(chunk_ids[is_archived & is_late]).tolist())
    on_time = ts[is_archived & ~is_late]
    if len(on_time):
        newest = latest(result.newest_on_time.get(blob.stream), int(on_time.max()))
        assert newest is not None
        result.newest_on_time[blob.stream] = newest
    return _with_archive_columns(context, rows, is_late, chunk_ids).filter(pa.array(is_new))


def _mask(size: int, parts: Sequence[bytes]) -> Mask:
    mask = np.zeros(size, dtype=bool)
    for content in parts:
        mask[decompress_integers(content)] = True
    return mask


def _with_archive_columns(
    context: WriteContext, rows: pa.Table, is_late: Mask, chunk_ids: Array
) -> pa.Table:
    unit_ids = np.array(context.unit_ids, dtype="i8")[unit_positions(rows)]
    position = rows.column_names.index("_unit")
    rows = rows.set_column(position, "_unit", pa.array(unit_ids))
    rows = rows.append_column("_late", pa.array(is_late))
    return rows.append_column("chunk", pa.array(chunk_ids, pa.int32()))


def _write(
    context: WriteContext, stream: str, tables: Sequence[pa.Table], result: WriteResult
) -> None:
    rows = pa.concat_tables(tables)
    files = context.tables[stream].write_append(rows, context.append_numbers[stream])
    result.files.setdefault(stream, []).extend(files)


def _read_conflicts(
    task: DecodeTask, conflicts: Mapping[int, Sequence[int]], result: WriteResult
) -> None:
    """Refuse the conflicting lines, with their bytes."""
    numbers_by_unit = {unit: set(numbers) for unit, numbers in conflicts.items()}
    raw = read_raw_lines(task.units, task.pieces, numbers_by_unit)
    for unit, numbers in conflicts.items():
        refused: list[RefusedLine] = []
        for number in numbers:
            line = raw.get((unit, number))
            if line is None:
                name = task.units[unit].name
                raise SourceUnreachable(
                    f"{name}: line {number} no longer exists: the source was changed"
                )
            refused.append(RefusedLine(number, "conflict", CONFLICT_DETAIL, line))
        result.conflicts[unit] = refused
