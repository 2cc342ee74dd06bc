"""Rows of the streams of recalls and stages, of alerts and of stored events as input of rules.

The watermark of such a stream is its boundary; of alerts and events, the time up to which their
rules are settled. Rows before it are final; later ones are read as they are after the last
revision, so what is computed from them is provisional.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from moirae.alerts import AlertStream
from moirae.rules import EXTERNAL_PREFIX, RevisionStream
from recall.ledger import RevisionReader
from recall.revisions import context_column
from sql.alerts import AlertGateway
from sql.events import EventGateway
from sql.rules import DeploymentGateway
from sql.stages import RowRevisionGateway, ValidRow


class RevisionRows:
    """The streams of rows that may be corrected that active rules read. Empty without such rules.

    They are those of recalls and stages, alerts, and stored events.
    """

    def __init__(
        self,
        connection: sql.Connection,
        root: StorageRoot,
        watermark: Callable[[], Micros | None] = lambda: None,
    ) -> None:
        """`root`: of the archive. `watermark`: the least of the declared streams."""
        self._gateway = RowRevisionGateway(connection)
        self._reader = RevisionReader(connection, root)
        self._events = EventGateway(connection)
        self.alerts = AlertStream(connection)
        self._alert_gateway = AlertGateway(connection)
        self._deployments = DeploymentGateway(connection)
        self._watermark = watermark
        self._streams: dict[str, RevisionStream] = {}
        self._last_numbers: dict[str, object] = {}
        self.watermarks: dict[str, Micros | None] = {}
        """The boundary of each stream at the last `refresh`."""

    @property
    def streams(self) -> Mapping[str, RevisionStream]:
        """The streams by table."""
        return self._streams

    @property
    def has_alerts(self) -> bool:
        """Whether there are streams of alerts or stored events, which follow from rules alone."""
        return any(not stream.is_of_recall for stream in self._streams.values())

    def set_streams(self, streams: Iterable[RevisionStream]) -> None:
        """Replace the streams; all of them count as changed."""
        self._streams = {stream.table: stream for stream in streams}
        self._last_numbers = {}
        self.watermarks = dict.fromkeys(self._streams)

    def refresh(self) -> frozenset[str]:
        """Read the boundaries; returns the streams with revisions since the last call."""
        return self._refresh_recalls() | self.refresh_alerts()

    def _refresh_recalls(self) -> frozenset[str]:
        streams = {name: s for name, s in self._streams.items() if s.is_of_recall}
        if not streams:
            return frozenset()
        # Before the rows: those before a boundary are then final.
        for rule in {stream.rule for stream in streams.values()}:
            boundary = optional_micros(self._gateway.boundary(rule))
            for name, stream in streams.items():
                if stream.rule == rule:
                    self.watermarks[name] = boundary
        numbers = {(row.rule, row.name): row.last_seq for row in self._gateway.list_streams()}
        changed = set()
        for name, stream in streams.items():
            if self._is_changed(name, numbers.get((stream.rule, stream.output), 0)):
                changed.add(name)
        return frozenset(changed)

    def refresh_alerts(self) -> frozenset[str]:
        """As `refresh`, of the streams of alerts and stored events."""
        streams = {name: s for name, s in self._streams.items() if not s.is_of_recall}
        if not streams:
            return frozenset()
        settled = {row.rule: row.settled_to for row in self._deployments.list_active()}
        changed = set()
        for name, stream in streams.items():
            self.watermarks[name] = self._settled_to(stream.producers, settled)
            if self._is_changed(name, self._alert_gateway.last_change(stream.producers)):
                changed.add(name)
        return frozenset(changed)

    def _settled_to(
        self, rules: Sequence[str], settled: Mapping[str, Micros | None]
    ) -> Micros | None:
        """The event time up to which rules are settled. What is posted is complete.

        Without rules that run, such as where they are disabled, all of their alerts are known.
        """
        times: list[Micros | None] = []
        for rule in rules:
            if rule.startswith(EXTERNAL_PREFIX):
                times.append(self._watermark())
            elif rule in settled:  # one that does not run has no further alerts
                times.append(settled[rule])
        if not times:
            return self._watermark()
        settled_times = [time for time in times if time is not None]
        return min(settled_times) if len(settled_times) == len(times) else None

    def _is_changed(self, name: str, number: object) -> bool:
        """Whether a stream has another number than at the last call, which is noted."""
        if name in self._last_numbers and self._last_numbers[name] == number:
            return False
        self._last_numbers[name] = number
        return True

    def read(self, name: str, time_range: TimeRange) -> pa.Table:
        """Rows of events in a range of event time: present ones, or all revisions."""
        stream = self._streams[name]
        if stream.rules:
            rows = self.alerts.read(time_range, stream.rules)
            return rows.append_column(EXTRA_COLUMN, pa.nulls(len(rows), pa.string()))
        if not stream.is_of_recall:
            return self._read_events(stream, time_range)
        return self._read_revisions(stream, time_range)

    def _read_events(self, stream: RevisionStream, time_range: TimeRange) -> pa.Table:
        rows = self._events.list_of_rule(
            stream.rule, optional_datetime(time_range.start), optional_datetime(time_range.end)
        )
        return _make_stream_table(stream, [{**row.attributes, "ts": row.ts} for row in rows])

    def _read_revisions(self, stream: RevisionStream, time_range: TimeRange) -> pa.Table:
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
        if self._streams[name].rules:
            return self.read(name, TimeRange(0, 0))
        return _make_stream_table(self._streams[name], [])

    def _load_past_events(self, rows: Sequence[ValidRow]) -> dict[str, Mapping[str, Any]]:
        """What rows of similarity recalls carry of past events that are still stored, by ID."""
        eids = {UUID(row.row["past_eid"]) for row in rows if row.row is not None}
        past_events: dict[str, Mapping[str, Any]] = {}
        if not eids:
            return past_events
        for past in self._events.list_past(sorted(eids)):
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
