"""The changes near alerts, as streams declare them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from archiver.delta import StreamTable
from archiver.read import read_stream_rows
from archiver.time_range import TimeRange
from archiver.times import Micros, duration_to_micros, micros_column, to_micros
from moirae.config import DeclaredChanges
from moirae.topology import Location, Surrounding, to_location, to_text

REACH = timedelta(hours=1)
"""Alerts are compared by the changes that came so long before them."""
MAX_ROWS = 100_000  # of a stream; more take seconds


@dataclass(frozen=True)
class NearbyChange:
    """A change at a place. `name`: stream, time and text."""

    ts: Micros
    name: str
    place: Location


@dataclass(frozen=True)
class NearbyChanges:
    """The changes of a range of time. Those that concern every place are left out.

    `unread`: streams with more rows than are read.
    """

    changes: Sequence[NearbyChange] = ()
    unread: Sequence[str] = ()

    def find(self, surrounding: Surrounding, start: Micros) -> list[str]:
        """The changes before an alert that are near its place."""
        first = start - duration_to_micros(REACH)
        return [
            change.name
            for change in self.changes
            if first <= change.ts <= start and surrounding.distance(change.place) is not None
        ]


def read_changes(
    tables: Mapping[str, StreamTable],
    declared: Mapping[str, DeclaredChanges],
    oldest: datetime,
    newest: datetime,
) -> NearbyChanges:
    """The changes near alerts that began between two times."""
    time_range = TimeRange(to_micros(oldest - REACH), to_micros(newest) + 1)
    changes = []
    unread = []
    for stream, entry in declared.items():
        if sum(file.rows for file in tables[stream].data_files(time_range)) > MAX_ROWS:
            unread.append(stream)
            continue
        rows = read_stream_rows(tables[stream], {}, entry.columns, time_range, MAX_ROWS)
        if isinstance(rows, str):  # there are none
            continue
        times = micros_column(rows, tables[stream].schema.time).tolist()
        columns = {name: rows[name].to_pylist() for name in entry.columns}
        for number, (ts, what) in enumerate(zip(times, columns[entry.what], strict=True)):
            values = {name: columns[column][number] for name, column in entry.where.items()}
            location = to_location(values)
            if what is not None and location:
                changes.append(NearbyChange(ts, f"{stream} {to_text(what)} at {ts}", location))
    return NearbyChanges(changes, unread)
