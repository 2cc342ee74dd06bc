"""A source unit while it is read: its decoded rows, its refused lines and its counters.

Rows too far in the future are quarantined, and rows of expired chunks refused, before they are
compared with the archive.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from archiver.delta import StreamSchema, row_places
from archiver.formats import CSV, JSONL
from archiver.ingest.classify import Array, Mask, RowClassification, latest
from archiver.ingest.closed_keys import ClosedKeys, merge_closed
from archiver.ingest.decoding import (
    DecodedRows,
    RefusalReason,
    RefusedLine,
    redact_names,
    select_raw,
)
from archiver.ingest.earlier_readings import read_rows_as_earlier
from archiver.ingest.keys_ahead import KeyAhead, find_keys_ahead, merge_keys_ahead
from archiver.ingest.lateness import LateRows, LateRule
from archiver.ingest.ledger import Counters
from archiver.ingest.punctuations import Punctuations, take_punctuations
from archiver.ingest.source_units import SourceUnit, UnitBatch, read_batches
from archiver.ingest.watermarks import PartitionProgress
from archiver.times import (
    Micros,
    duration_to_micros,
    format_duration,
    micros_column,
    optional_datetime,
)
from sql.archive import FinishedUnitRow

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

    `id`: its ledger id. `newest`: the newest event time read so far; `newest_not_ahead`: of the
    rows that are not ahead of the clock; `keys_ahead`: of those that are. `fields`: the field names
    of CSV lines. `closed`: the event time that its records close; None: none does;
    `closed_keys`: what they close for single keys.
    `partition_before`: how far the partition of the unit had been read before; None
    without one.
    """

    unit: SourceUnit
    id: int
    late_rule: LateRule
    counters: Counters = field(default_factory=Counters)
    refused_lines: list[RefusedLine] = field(default_factory=list)
    newest: Micros | None = None
    newest_not_ahead: Micros | None = None
    keys_ahead: Sequence[KeyAhead] = ()
    fields: Sequence[str] | None = None
    closed: Micros | None = None
    closed_keys: ClosedKeys = field(default_factory=dict)
    partition_before: PartitionProgress | None = None

    def __post_init__(self) -> None:
        if self.unit.tombstones:
            self.add_counts(tombstones=self.unit.tombstones)

    def flag_late(self, rows: pa.Table, key: Sequence[str], ts: Array) -> LateRows:
        """The late rows among the next rows of the unit, with their `key` columns."""
        return self.late_rule.flag_late_rows(rows, key, ts, self.newest_not_ahead)

    def partition_after(self) -> PartitionProgress:
        """How far the partition has been read when the unit is finished."""
        assert self.partition_before is not None and self.unit.next_offset is not None
        progress = self.partition_before.progress.with_rows(self.newest, self.newest_not_ahead)
        return PartitionProgress(self.unit.next_offset, progress.with_advanced(self.closed))

    def finished_row(self) -> FinishedUnitRow:
        """What the ledger records of the unit once it is archived."""
        record_format = self.unit.format
        return FinishedUnitRow(
            id=self.id,
            counters=vars(self.counters),
            newest=optional_datetime(self.newest),
            fields=self.fields,
            # Without one: JSON lines, or plain CSV.
            record_format=None if record_format in (JSONL, CSV) else record_format.encode(),
            version=self.unit.version,
        )

    def add_rows(
        self,
        newest: Micros | None,
        newest_not_ahead: Micros | None,
        keys_ahead: Sequence[KeyAhead],
    ) -> None:
        """Include the event times of rows that were read, and their keys that are ahead."""
        self.newest = latest(self.newest, newest)
        self.newest_not_ahead = latest(self.newest_not_ahead, newest_not_ahead)
        if keys_ahead:
            self.keys_ahead = merge_keys_ahead(self.keys_ahead, keys_ahead)

    def add_refused(self, refused_lines: Sequence[RefusedLine]) -> None:
        """Collect refused lines and count them by reason."""
        self.refused_lines += refused_lines
        for refused in refused_lines:
            self.add_counts(**{COUNTER_BY_REASON[refused.reason]: 1})

    def add_punctuations(self, punctuations: Punctuations) -> None:
        """Include records that close time; they were counted as read, and are no rows."""
        if punctuations.records:
            self.closed = latest(self.closed, punctuations.closed)
            self.closed_keys = merge_closed(self.closed_keys, punctuations.closed_keys)
            self.add_counts(read=-punctuations.records, punctuations=punctuations.records)

    def add_counts(self, **counts: int) -> None:
        """Add to the counters of the given names."""
        before = vars(self.counters)
        self.counters = replace(
            self.counters, **{name: before[name] + count for name, count in counts.items()}
        )


@dataclass(frozen=True)
class DecodedSlice:
    """Consecutive decoded rows of one unit, to be appended to the table of its stream.

    `readings`: of earlier declarations, see `archiver.ingest.earlier_readings`. `place_keys`: see
    `archiver.delta.row_places`.
    """

    open_unit: OpenUnit
    table: pa.Table
    late_rows: LateRows
    line_numbers: Array
    raw: Sequence[bytes]
    readings: Array
    place_keys: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.line_numbers)


def decode_slices(
    open_unit: OpenUnit, schema: StreamSchema, now: Micros, expired_before: Micros | None
) -> Iterator[DecodedSlice]:
    """Read and decode a unit; see `make_slices`."""
    batches = read_batches(open_unit.unit, schema, open_unit.late_rule.clock)
    return make_slices(open_unit, batches, schema, now, expired_before)


def make_slices(
    open_unit: OpenUnit,
    batches: Iterable[UnitBatch],
    schema: StreamSchema,
    now: Micros,
    expired_before: Micros | None,
) -> Iterator[DecodedSlice]:
    """The rows of a unit. Refused lines are added to the unit, all records read are counted.

    `now`: the current time, from which `schema.future` is measured.
    `expired_before`: rows before this event time belong to expired chunks; None: no chunk expired.
    """
    for batch in batches:
        open_unit.add_counts(read=batch.records_read)
        open_unit.fields = redact_names(schema, batch.reading.fields)
        punctuations = take_punctuations(batch.rows.refused_lines, schema, batch.reading, now)
        open_unit.add_punctuations(punctuations)
        open_unit.add_refused(punctuations.refused_lines)
        decoded, ts, refused_lines = refuse_by_time(batch.rows, schema, now, expired_before)
        open_unit.add_refused(refused_lines)
        yield DecodedSlice(
            open_unit=open_unit,
            table=decoded.table,
            late_rows=open_unit.flag_late(decoded.table, schema.key, ts),
            line_numbers=decoded.line_numbers,
            raw=decoded.raw,
            readings=read_rows_as_earlier(schema, decoded, batch.reading),
            place_keys=row_places(schema, batch.reading.unit, decoded.line_numbers),
        )
        open_unit.add_rows(*observe_times(decoded.table, ts, schema, open_unit.late_rule))


class AcceptedRows(NamedTuple):
    """Rows with their event times, and the lines that were refused by their times."""

    rows: DecodedRows
    ts: Array
    refused_lines: list[RefusedLine]


class ObservedTimes(NamedTuple):
    """Event times of rows: the newest, the newest not ahead of the clock, and the keys ahead."""

    newest: Micros | None
    newest_not_ahead: Micros | None
    keys_ahead: Sequence[KeyAhead]


def observe_times(rows: pa.Table, ts: Array, schema: StreamSchema, rule: LateRule) -> ObservedTimes:
    """What the event times `ts` of decoded rows of a unit are."""
    if not len(ts):
        return ObservedTimes(None, None, ())
    newest = int(ts.max())
    if rule.clock is None or newest <= rule.clock:
        return ObservedTimes(newest, newest, ())
    is_ahead = rule.flag_ahead(ts)
    keys_ahead = find_keys_ahead(rows, schema.time, schema.key, is_ahead, rule.clock)
    return ObservedTimes(newest, rule.newest_not_ahead(ts), keys_ahead)


def refuse_by_time(
    decoded: DecodedRows, schema: StreamSchema, now: int, expired_before: int | None
) -> AcceptedRows:
    """The rows that are neither too far in the future nor expired; and the lines of the others.

    `now` and `expired_before` as in `decode_slices`.
    """
    ts = micros_column(decoded.table, schema.time)
    is_future = ts > now + duration_to_micros(schema.future)
    is_refused = is_future
    if expired_before is not None:
        is_refused = is_future | (ts < expired_before)
    if not is_refused.any():
        return AcceptedRows(decoded, ts, [])
    too_new = f"timestamp more than {format_duration(schema.future)} in the future"
    refused_lines = _refuse(decoded, is_future, "quarantined", too_new)
    is_expired = is_refused & ~is_future
    refused_lines += _refuse(decoded, is_expired, "expired", "its chunk has expired")
    return AcceptedRows(_select(decoded, ~is_refused), ts[~is_refused], refused_lines)


def count_classified(slices: Sequence[DecodedSlice], classification: RowClassification) -> None:
    """Count the classified rows of consecutive slices in their units, and refuse conflicts."""
    is_replayed = classification.replayed
    is_archived = classification.new | is_replayed
    is_late = np.concatenate([decoded.late_rows.late for decoded in slices])
    is_by_ahead = np.concatenate([decoded.late_rows.by_ahead for decoded in slices])
    ends = np.cumsum([0, *map(len, slices)])
    masks = {
        "archived": is_archived,
        "late": is_archived & is_late,
        "late_by_ahead": is_archived & is_by_ahead,
        "replayed": is_replayed,
        "replayed_late": is_replayed & is_late,
        "duplicates": classification.duplicate,
        "erased_again": classification.erased_again,
    }
    counts = {name: _count_between(ends, mask) for name, mask in masks.items()}
    for position, (decoded, (start, end)) in enumerate(
        zip(slices, pairwise(ends.tolist()), strict=True)
    ):
        decoded.open_unit.add_counts(**{name: counts[name][position] for name in counts})
        is_refused = classification.conflict[start:end]
        if is_refused.any():
            refused_lines = _refuse(decoded, is_refused, "conflict", CONFLICT_DETAIL)
            decoded.open_unit.add_refused(refused_lines)


def _count_between(ends: Array, mask: Mask) -> list[int]:
    """How many rows of a mask are between each end and the next."""
    counts: list[int] = np.diff(np.concatenate([[0], np.cumsum(mask)])[ends]).tolist()
    return counts


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
