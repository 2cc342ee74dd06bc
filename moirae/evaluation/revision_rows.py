"""Rows of the streams of recalls and stages as input of rules.

The watermark of such a stream is its boundary. Rows before it are final; later ones are read as
they are after the last revision, so what is computed from them is provisional.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa

import sql
from archiver.delta import ARROW_TYPES, EXTRA_COLUMN
from archiver.storage import StorageRoot
from archiver.time_range import TimeRange
from archiver.times import Micros, optional_datetime, optional_micros
from moirae.rules import RevisionStream
from recall.ledger import RevisionReader
from recall.revisions import context_column
from sql.events import EventGateway
from sql.stages import RowRevisionGateway, ValidRow


class RevisionRows:
    """The streams of recalls and stages that active rules read. Empty without such rules."""

    def __init__(self, connection: sql.Connection, root: StorageRoot) -> None:
        """`root`: of the archive."""
        self._gateway = RowRevisionGateway(connection)
        self._reader = RevisionReader(connection, root)
        self._past_events = EventGateway(connection)
        self._streams: dict[str, RevisionStream] = {}
        self._last_numbers: dict[str, int] = {}
        self.watermarks: dict[str, Micros | None] = {}
        """The boundary of each stream at the last `refresh`."""

    @property
    def streams(self) -> Mapping[str, RevisionStream]:
        """The streams by name."""
        return self._streams

    def set_streams(self, streams: Iterable[RevisionStream]) -> None:
        """Replace the streams; all of them count as changed."""
        self._streams = {stream.name: stream for stream in streams}
        self._last_numbers = {}
        self.watermarks = dict.fromkeys(self._streams)

    def refresh(self) -> frozenset[str]:
        """Read the boundaries; returns the streams with revisions since the last call."""
        if not self._streams:
            return frozenset()
        # Before the rows: those before a boundary are then final.
        for rule in {stream.rule for stream in self._streams.values()}:
            boundary = optional_micros(self._gateway.boundary(rule))
            for stream in self._streams.values():
                if stream.rule == rule:
                    self.watermarks[stream.name] = boundary
        numbers = {(row.rule, row.name): row.last_seq for row in self._gateway.list_streams()}
        changed = set()
        for name, stream in self._streams.items():
            number = numbers.get((stream.rule, stream.output), 0)
            if self._last_numbers.get(name) != number:
                self._last_numbers[name] = number
                changed.add(name)
        return frozenset(changed)

    def read(self, name: str, time_range: TimeRange) -> pa.Table:
        """Rows of events in a range of event time: present ones, or all revisions."""
        stream = self._streams[name]
        rows = self._reader.read_events(
            stream.rule,
            stream.output,
            all_revisions=stream.has_all_revisions,
            start=optional_datetime(time_range.start),
            end=optional_datetime(time_range.end),
        )
        past_events = self._load_past_events(rows) if stream.is_similar else {}
        records = []
        for row in rows:
            content = {**row.key, **(row.row or {})}
            if stream.is_similar and row.row is not None:
                content = {**past_events.get(row.row["past_eid"], {}), **content}
            own = {"eid": str(row.eid), "ts": row.ts}
            if stream.has_all_revisions:
                own |= {"seq": row.seq, "op": row.op, "row_key": row.row_key or ""}
            records.append({**content, **own})
        return _make_stream_table(stream, records)

    def empty_table(self, name: str) -> pa.Table:
        """The columns of a stream without rows."""
        return _make_stream_table(self._streams[name], [])

    def _load_past_events(self, rows: Sequence[ValidRow]) -> dict[str, Mapping[str, Any]]:
        """What rows of similarity recalls carry of past events that are still stored, by ID."""
        eids = {UUID(row.row["past_eid"]) for row in rows if row.row is not None}
        past_events: dict[str, Mapping[str, Any]] = {}
        if not eids:
            return past_events
        for past in self._past_events.list_past(sorted(eids)):
            contexts = {
                context_column(name): orjson.dumps(terms).decode()
                for name, terms in (past.contexts or {}).items()
            }
            past_events[str(past.eid)] = {**contexts, **past.attributes}
        return past_events


def _make_stream_table(stream: RevisionStream, records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows of a stream, with no undeclared fields: queries read it as declared streams."""
    return make_table({**stream.columns, EXTRA_COLUMN: "string"}, records)


def make_table(columns: Mapping[str, str], records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Records with JSON values as a table. `columns`: with Spark's types."""
    arrays = {}
    for name, kind in columns.items():
        arrow_type = ARROW_TYPES[kind]
        values = [_parse_value(record.get(name), arrow_type) for record in records]
        arrays[name] = pa.array(values, arrow_type)
    return pa.table(arrays)


def _parse_value(value: Any, arrow_type: pa.DataType) -> Any:
    """A value from JSON, where NaN, infinite numbers and times are strings."""
    if value is None:
        return None
    if pa.types.is_floating(arrow_type):
        return float(value)
    if isinstance(value, str) and pa.types.is_timestamp(arrow_type):
        return datetime.fromisoformat(value)
    if isinstance(value, str) and pa.types.is_date(arrow_type):
        return datetime.fromisoformat(value).date()
    return value
