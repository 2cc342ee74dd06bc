"""Reads changes, alerts and topology of a workspace, and ranks what changed before an alert."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import pyarrow as pa

import sql
from archiver.delta import StreamSchema, StreamTable
from archiver.read import read_stream_rows
from archiver.storage import StorageRoot
from archiver.time_range import TimeRange
from archiver.times import Micros, duration_to_micros, micros_column, to_micros
from moirae.config import DeclaredChanges, Settings
from moirae.errors import NotFound
from moirae.inspect.past_events import load_answers
from moirae.recent_changes.ranking import (
    Change,
    HistoryStart,
    PastAlert,
    Question,
    RankedChange,
    rank_changes,
)
from moirae.topology import Location, load_topology, to_location, to_text
from sql.alerts import AlertFilter, AlertGateway, AlertRow
from sql.events import EventGateway

_MAX_SIMILAR = 10  # most similar past alerts that are asked
_MAX_ALERTS = 10_000  # newest ones of the rule
_MAX_ROWS = 100_000  # of a stream of changes; more take seconds


@dataclass(frozen=True)
class UnreadChanges:
    """A stream of changes of which nothing was read, and why."""

    stream: str
    reason: str


@dataclass(frozen=True)
class RecentChanges:
    """What changed before an event, ranked. `streams`: those that declare changes."""

    ts: datetime
    within: timedelta
    streams: Sequence[str]
    changes: Sequence[RankedChange]
    unread: Sequence[UnreadChanges]


def load_recent_changes(
    settings: Settings,
    storage: StorageRoot,
    schemas: Sequence[StreamSchema],
    connection: sql.Connection,
    eid: UUID,
    *,
    within: timedelta,
    span: timedelta,
) -> RecentChanges:
    """What changed up to `within` before an event, compared with the hours of `span` before it.

    Raises `NotFound`.
    """
    event = EventGateway(connection).get(eid)
    if event is None:
        raise NotFound(f"event {eid} has been deleted")
    declared = {name: stream.changes for name, stream in settings.streams.items() if stream.changes}
    if not declared:
        return RecentChanges(event.ts, within, [], [], [])
    alerts = _list_alerts(connection, event.rule, event.ts - span, event.ts)
    similar = _list_similar(connection, eid)
    now, margin = to_micros(event.ts), duration_to_micros(within)
    start = to_micros(max([event.ts - span, *([alerts[-1].starts_at] if alerts else [])]))
    first = min([start, *(ts for _, ts in similar)])
    ranges = [TimeRange(first - margin, now + 1), TimeRange(now - margin, now + 1)]
    changes: list[Change] = []
    unread: list[UnreadChanges] = []
    starts: dict[str, HistoryStart] = {}
    for schema in schemas:
        if schema.name not in declared:
            continue
        rows, reason = _read_rows(storage, schema, declared[schema.name], ranges)
        if rows is None:
            unread.append(UnreadChanges(schema.name, reason))
            continue
        changes += _list_changes(schema, declared[schema.name], rows)
        oldest = int(micros_column(rows, schema.time).min())
        starts[schema.name] = HistoryStart(oldest, max(start, oldest), reason)
    question = Question(
        key=to_location(event.key),
        ts=now,
        within=margin,
        starts=starts,
        similar=similar,
        past=[_to_past_alert(alert, now) for alert in alerts],
        topology=load_topology(connection, event.ts),
        steps={name: entry.steps for name, entry in declared.items()},
    )
    return RecentChanges(
        event.ts, within, sorted(declared), rank_changes(changes, question), unread
    )


def _list_alerts(
    connection: sql.Connection, rule: str, since: datetime, until: datetime
) -> list[AlertRow]:
    """The alerts of a rule that fired and were not withdrawn, newest first; also historical ones."""
    selection = AlertFilter(rule=rule, include_all=True, since=since, until=until)
    alerts = AlertGateway(connection).list_newest(selection, limit=_MAX_ALERTS)
    return [alert for alert in alerts if _counts(alert) and alert.starts_at >= since]


def _counts(alert: AlertRow) -> bool:
    is_withdrawn = "withdrawn" in (alert.state, alert.history)
    return alert.fired_at is not None and not is_withdrawn


def _to_past_alert(alert: AlertRow, now: Micros) -> PastAlert:
    end = now if alert.ends_at is None else to_micros(alert.ends_at)
    return PastAlert(to_location(alert.key), to_micros(alert.starts_at), end)


def _list_similar(connection: sql.Connection, eid: UUID) -> list[tuple[Location, Micros]]:
    """Key and time of the most similar past events; those that have been deleted are left out."""
    similar: dict[UUID, tuple[Location, Micros]] = {}
    for answer in load_answers(connection, eid):
        for hit in answer.hits or []:
            if hit.past is not None:
                similar[hit.eid] = to_location(hit.past["key"]), to_micros(hit.ts)
    return list(similar.values())[:_MAX_SIMILAR]


def _read_rows(
    storage: StorageRoot,
    schema: StreamSchema,
    declared: DeclaredChanges,
    ranges: Sequence[TimeRange],
) -> tuple[pa.Table | None, str]:
    """The rows of the first range that can be read, and why those of an earlier one cannot."""
    if not StreamTable.exists(storage, schema.name):
        return None, "nothing is archived yet"
    table = StreamTable(storage, schema)
    reasons: list[str] = []
    for time_range in ranges:
        rows = read_stream_rows(table, {}, declared.columns, time_range, _MAX_ROWS)
        if not isinstance(rows, str):
            return rows, "".join(reasons)
        reasons.append(rows)
    return None, reasons[0]


def _list_changes(
    schema: StreamSchema, declared: DeclaredChanges, rows: pa.Table
) -> Iterator[Change]:
    """Rows without a text of what was changed are left out."""
    times = micros_column(rows, schema.time).tolist()
    columns = {name: rows[name].to_pylist() for name in declared.columns}
    for number, (ts, what) in enumerate(zip(times, columns[declared.what], strict=True)):
        if what is not None:
            values = {name: columns[column][number] for name, column in declared.where.items()}
            yield Change(schema.name, ts, to_text(what), to_location(values))
