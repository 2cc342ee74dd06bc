"""What an erasure is to remove: rows, the values that are in no other row, and events of the rows."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import orjson
import pyarrow as pa
import pyarrow.compute as pc

import sql
from archiver.delta import StreamTable
from archiver.storage import StorageRoot
from archiver.times import Micros, micros_column
from moirae.config import Settings
from moirae.erasure.archive_rows import FoundRows, SelectedRows, find_remaining
from moirae.erasure.archive_tables import read_archived_events
from moirae.erasure.matching_events import is_event_of
from moirae.erasure.places import find_declared
from moirae.erasure.values import is_searchable
from sql.archive import ErasureGateway

_EVENT_TIMES = 10_000  # of one query

Report = Callable[[str], object]
"""Called with what begins now."""

Moments = Mapping[Micros, Collection[Mapping[str, str]]]


@dataclass
class ErasureChoice:
    """`rows`: by stream. `values`: that are to be removed everywhere; `declared`: those that stay,
    since the workspace file or a rule has them. `events`: IDs.
    """

    rows: dict[str, FoundRows] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)

    @property
    def row_count(self) -> int:
        """The number of rows of all streams."""
        return sum(map(len, self.rows.values()))


def choose(
    settings: Settings,
    connection: sql.Connection,
    tables: Mapping[str, StreamTable],
    selections: Mapping[str, SelectedRows],
    *,
    root: StorageRoot,
    constants: Collection[str] = (),
    report: Report = lambda step: None,
) -> ErasureChoice:
    """Read the rows of selections, and find out what goes with them.

    `tables`: of all streams. `constants`: of the condition. Nothing is changed.
    """
    key = ErasureGateway(connection).get_key()
    choice = ErasureChoice()
    values = set(filter(is_searchable, constants))
    for stream, selection in selections.items():
        report(f"reading stream {stream}")
        stream_rows = selection.find(key)
        if len(stream_rows):
            choice.rows[stream] = stream_rows
            values |= stream_rows.values
    report("looking for the values in other rows")
    values -= find_remaining(tables, selections, values)
    choice.declared = find_declared(settings, connection, values)
    choice.values = values - choice.declared
    report("looking for events of the rows")
    for stream_rows in choice.rows.values():
        choice.events |= _find_events(connection, stream_rows.moments)
        choice.events |= _find_archived(root, stream_rows.moments)
    return choice


def _find_events(connection: sql.Connection, moments: Moments) -> set[str]:
    gateway = ErasureGateway(connection)
    times = sorted(moments)
    events: set[str] = set()
    for start in range(0, len(times), _EVENT_TIMES):
        for event in gateway.find_moments(times[start : start + _EVENT_TIMES]):
            if is_event_of(moments[event.ts], event.key, event.attributes):
                events.add(str(event.eid))
    return events


def _find_archived(root: StorageRoot, moments: Moments) -> set[str]:
    events: set[str] = set()
    if not moments:
        return events
    times = pa.array(sorted(moments), pa.int64())
    for rows in read_archived_events(root):
        rows = rows.filter(pc.is_in(pa.array(micros_column(rows, "ts")), value_set=times))
        for ts, row in _read_events(rows):
            if is_event_of(moments[ts], orjson.loads(row["key"]), orjson.loads(row["attributes"])):
                events.add(row["eid"])
    return events


def _read_events(rows: pa.Table) -> Iterator[tuple[Micros, Mapping[str, str]]]:
    columns = rows.select(["eid", "key", "attributes"]).to_pylist()
    yield from zip(micros_column(rows, "ts").tolist(), columns, strict=True)
