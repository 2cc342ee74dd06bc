"""A source unit while it is read: its decoded rows, its refused lines and its counters.

Rows too far in the future are quarantined, and rows of expired chunks refused, before they are
compared with the archive.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.ingest.classify import (
    Array,
    Mask,
    RowClassification,
    flag_late,
    flag_late_in_order,
    latest,
)
from archiver.ingest.decoding import DecodedRows, RefusalReason, RefusedLine, select_raw
from archiver.ingest.earlier_readings import read_rows_as_earlier
from archiver.ingest.ledger import Counters
from archiver.ingest.source_units import SourceUnit, read_batches
from archiver.ingest.watermarks import PartitionProgress
from archiver.times import Micros, duration_to_micros, format_duration, micros_column

CONFLICT_DETAIL = "same id and timestamp as an archived row, but different content"

COUNTER_BY_REASON = {
    "malformed": "malformed",
    "quarantined": "quarantined",
    "conflict": "conflicts",
    "expired": "expired",
}


@dataclass
class OpenUnit:
    """A unit that is being read.

    `id`: its ledger id. `late_before`: rows before this event time are late; None: no row is.
    `newest`: the newest event time read so far. `fields`: the field names of CSV lines.
    `partition_before`: how far the partition of the unit had been read before; None without one.
    """

    unit: SourceUnit
    id: int
    late_before: Micros | None
    counters: Counters = field(default_factory=Counters)
    refused_lines: list[RefusedLine] = field(default_factory=list)
    newest: Micros | None = None
    fields: Sequence[str] | None = None
    partition_before: PartitionProgress | None = None

    def flag_late(self, ts: Array, lateness: Micros) -> Mask:
        """Mask of the late rows among the next rows of the unit."""
        if self.partition_before is None:
            return flag_late(ts, self.late_before)
        newest = latest(self.partition_before.progress.newest, self.newest)
        return flag_late_in_order(ts, newest, lateness, self.late_before)

    def partition_after(self) -> PartitionProgress:
        """How far the partition has been read when the unit is finished."""
        assert self.partition_before is not None and self.unit.line_numbers
        return PartitionProgress(
            next=self.unit.line_numbers[-1] + 1,
            progress=self.partition_before.progress.with_newest(self.newest),
        )

    def observe_times(self, ts: Array) -> None:
        """Include event times in `newest`."""
        if len(ts):
            self.newest = latest(self.newest, int(ts.max()))

    def add_refused(self, refused_lines: Sequence[RefusedLine]) -> None:
        """Collect refused lines and count them by reason."""
        self.refused_lines += refused_lines
        for refused in refused_lines:
            self.add_counts(**{COUNTER_BY_REASON[refused.reason]: 1})

    def add_counts(self, **counts: int) -> None:
        """Add to the counters of the given names."""
        self.counters += Counters(**counts)


@dataclass(frozen=True)
class DecodedSlice:
    """Consecutive decoded rows of one unit, to be appended to the table of its stream.

    `readings`: of earlier declarations, see `archiver.ingest.earlier_readings`.
    """

    open_unit: OpenUnit
    table: pa.Table
    is_late: Mask
    line_numbers: Array
    raw: Sequence[bytes]
    readings: Array

    def __len__(self) -> int:
        return len(self.line_numbers)


def decode_slices(
    open_unit: OpenUnit, schema: StreamSchema, now: Micros, expired_before: Micros | None
) -> Iterator[DecodedSlice]:
    """Read and decode a unit. Refused lines are added to the unit, all records read are counted.

    `now`: the current time, from which `schema.future` is measured.
    `expired_before`: rows before this event time belong to expired chunks; None: no chunk expired.
    """
    lateness = duration_to_micros(schema.lateness)
    for batch in read_batches(open_unit.unit, schema):
        open_unit.add_counts(read=batch.records_read)
        open_unit.fields = batch.fields
        open_unit.add_refused(batch.rows.refused_lines)
        decoded, refused_lines = refuse_by_time(batch.rows, schema, now, expired_before)
        open_unit.add_refused(refused_lines)
        ts = micros_column(decoded.table, schema.time)
        yield DecodedSlice(
            open_unit=open_unit,
            table=decoded.table,
            is_late=open_unit.flag_late(ts, lateness),
            line_numbers=decoded.line_numbers,
            raw=decoded.raw,
            readings=read_rows_as_earlier(schema, decoded, batch.line_format, batch.fields),
        )
        open_unit.observe_times(ts)


def refuse_by_time(
    decoded: DecodedRows, schema: StreamSchema, now: int, expired_before: int | None
) -> tuple[DecodedRows, list[RefusedLine]]:
    """The rows that are neither too far in the future nor expired; and the lines of the others.

    `now` and `expired_before` as in `decode_slices`.
    """
    ts = micros_column(decoded.table, schema.time)
    is_future = ts > now + duration_to_micros(schema.future)
    is_expired = np.zeros(len(ts), dtype=bool)
    if expired_before is not None:
        is_expired = ts < expired_before
    is_refused = is_future | is_expired
    if not is_refused.any():
        return decoded, []
    too_new = f"timestamp more than {format_duration(schema.future)} in the future"
    refused_lines = _refuse(decoded, is_future, "quarantined", too_new)
    refused_lines += _refuse(decoded, is_expired, "expired", "its chunk has expired")
    return _select(decoded, ~is_refused), refused_lines


def count_classified(
    slices: Sequence[DecodedSlice], classification: RowClassification, is_late: Mask
) -> None:
    """Count the classified rows of consecutive slices in their units, and refuse conflicts."""
    is_archived = classification.new | classification.replayed
    start = 0
    for decoded in slices:
        rows = slice(start, start + len(decoded))
        start = rows.stop
        decoded.open_unit.add_counts(
            archived=int(is_archived[rows].sum()),
            late=int((is_archived & is_late)[rows].sum()),
            duplicates=int(classification.duplicate[rows].sum()),
        )
        conflicts = _refuse(decoded, classification.conflict[rows], "conflict", CONFLICT_DETAIL)
        decoded.open_unit.add_refused(conflicts)


def _refuse(
    rows: DecodedRows | DecodedSlice, is_refused: Mask, reason: RefusalReason, detail: str
) -> list[RefusedLine]:
    """The lines of the rows in the mask, refused for one reason."""
    refused = []
    for index in np.flatnonzero(is_refused).tolist():
        line = int(rows.line_numbers[index])
        refused.append(RefusedLine(line, reason, detail, rows.raw[index]))
    return refused


def _select(rows: DecodedRows, is_selected: Mask) -> DecodedRows:
    positions = np.flatnonzero(is_selected).tolist()
    return DecodedRows(
        table=rows.table.filter(pa.array(is_selected)),
        line_numbers=rows.line_numbers[is_selected],
        raw=select_raw(rows.raw, positions),
        refused_lines=[],
    )
