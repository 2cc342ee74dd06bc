"""Posted alerts become events and alerts of rules of their own; they end by the clock.

The posts are rows of a built-in stream, archived like all others. Each row is read once, after its
batch is archived; a new process reads the rows of the last seconds again, which changes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import orjson
import pyarrow as pa
import structlog

import sql
from archiver.delta import StreamTable
from archiver.ingest import IngestResult
from archiver.time_range import TimeRange
from archiver.times import Micros, from_micros, to_micros
from moirae.alerts import (
    AlertLifetime,
    AlertPost,
    Event,
    PostedAlert,
    SilenceReason,
    continue_alert,
    make_alert_id,
    make_event_row,
    make_external_event,
    make_lifetime_row,
)
from moirae.config import EXTERNAL_ALERTS
from moirae.deployments import ExternalRules
from moirae.evaluation.plan import ActiveRule
from sql.alerts import (
    AlertDescriptionRow,
    AlertGateway,
    AlertLifetimeRow,
    ExternalAlertGateway,
    ExternalAlertRow,
    NewestPostRow,
)
from sql.events import EventGateway, NewEventRow

_LOG = structlog.get_logger()

# Microseconds of event time that a new process reads again: requests that the server received
# together may be archived in another order.
_OVERLAP = 10_000_000
_MAX_ENDED = 5_000  # alerts that one pass ends: a source may post any number
# Posts that one transaction records: some seconds on a busy machine, after which the process says
# that it is alive.
_MAX_RECORDED = 1_000


class _RecordedAlert(NamedTuple):
    """An alert after some posts. `row`: as it was stored; None: it is new, with `event`."""

    id: UUID
    alert: PostedAlert
    row: ExternalAlertRow | None
    event: Event | None = None


class ExternalAlerts:
    """Records posted alerts, on the connection of the live process."""

    def __init__(
        self,
        connection: sql.Connection,
        table: StreamTable,
        rules: ExternalRules,
        find_rule: Callable[[str], ActiveRule | None],
        reload_rules: Callable[[], None],
        resolve_timeout: timedelta,
        heartbeat: Callable[[], None],
    ) -> None:
        """`find_rule`: a rule that runs, by name. `reload_rules`: starts those that were added.

        `resolve_timeout`: for which an alert fires after a post without an end. `heartbeat` stores
        that the process is alive.
        """
        self._connection = connection
        self._table = table
        self._rules = rules
        self._find_rule = find_rule
        self._reload_rules = reload_rules
        self._resolve_timeout = resolve_timeout // timedelta(microseconds=1)
        self._heartbeat = heartbeat
        self._gateway = ExternalAlertGateway(connection)
        self._alerts = AlertGateway(connection)
        self._events = EventGateway(connection)

    def recover(self) -> None:
        """Record the posts that the process before has archived and not recorded."""
        read_to = self._gateway.get_progress()
        start = None if read_to is None else to_micros(read_to) - _OVERLAP
        for file in self._table.data_files(TimeRange(start)):
            rows = self._table.read_on_time(file.path, list(self._table.schema.query_columns))
            self._record(
                post for post in self._read_posts(rows) if start is None or post.at >= start
            )

    def record(self, ingested: IngestResult) -> None:
        """Record the posts of a batch that was archived."""
        rows = ingested.on_time.get(EXTERNAL_ALERTS)
        if rows is not None and len(rows):
            self._record(self._read_posts(rows))
        for file in ingested.files.get(EXTERNAL_ALERTS, ()):
            columns = list(self._table.schema.query_columns)
            self._record(self._read_posts(self._table.read_on_time(file.path, columns)))

    def end_silent(self, now: datetime) -> None:
        """End alerts whose end has passed by the clock, as many as one pass ends."""
        clock = to_micros(now)
        ended = self._gateway.list_ended(clock, _MAX_ENDED)
        if not ended:
            return
        with self._connection.transaction():
            for row in ended:
                self._update(row, _to_alert(row), clock, "no_data")
            self._gateway.close([row.id for row in ended])

    def _read_posts(self, rows: pa.Table) -> Iterator[AlertPost]:
        """The posts in rows of the stream."""
        columns = ("ts", "labels", "starts_at", "ends_at", "annotations")
        for at, labels, starts_at, ends_at, annotations in zip(
            *(rows[name].to_pylist() for name in columns), strict=True
        ):
            label_texts = _read_texts(labels)
            if not label_texts or starts_at is None:
                # The server writes no such rows; `moirae ingest` may.
                _LOG.warning("row without labels or start left out", action="post_left_out")
                continue
            yield AlertPost(
                at=to_micros(at),
                labels=label_texts,
                starts=to_micros(starts_at),
                ends=to_micros(at) + self._resolve_timeout
                if ends_at is None
                else to_micros(ends_at),
                annotations=_read_texts(annotations),
            )

    def _record(self, posts: Iterable[AlertPost]) -> None:
        ordered = sorted(posts, key=lambda post: post.at)
        for start in range(0, len(ordered), _MAX_RECORDED):
            self._record_some(ordered[start : start + _MAX_RECORDED])
            self._heartbeat()

    def _record_some(self, ordered: Sequence[AlertPost]) -> None:
        rule_names, added = self._rules.assign({_name_of(post) for post in ordered})
        if added:
            self._reload_rules()
        posts_by_rule: dict[str, list[AlertPost]] = defaultdict(list)
        for post in ordered:
            posts_by_rule[rule_names[_name_of(post)]].append(post)
        with self._connection.transaction():
            for name, rule_posts in posts_by_rule.items():
                rule = self._find_rule(name)
                if rule is None:
                    _LOG.warning("posted alerts left out", action="posts_left_out", rule=name)
                else:
                    self._record_for_rule(rule, rule_posts)
            self._gateway.set_progress(from_micros(ordered[-1].at))

    def _record_for_rule(self, rule: ActiveRule, posts: Sequence[AlertPost]) -> None:
        events = [make_external_event(rule.name, rule.columns, post) for post in posts]
        latest: dict[str, _RecordedAlert] = {}
        for row in self._gateway.list_latest(rule.name, {event.fingerprint for event in events}):
            latest[row.fingerprint] = _RecordedAlert(row.id, _to_alert(row), row)
        recorded: dict[UUID, _RecordedAlert] = {}
        fingerprints: dict[UUID, str] = {}
        for post, event in zip(posts, events, strict=True):
            previous = latest.get(event.fingerprint)
            alert, is_new = continue_alert(None if previous is None else previous.alert, post)
            if previous is None or is_new:
                changed = _RecordedAlert(make_alert_id(rule.name, event.eid), alert, None, event)
            else:
                changed = previous._replace(alert=alert)
            latest[event.fingerprint] = recorded[changed.id] = changed
            fingerprints[changed.id] = event.fingerprint
        clock = posts[-1].at
        self._add(rule, [changed for changed in recorded.values() if changed.row is None], clock)
        for changed in recorded.values():
            if changed.row is not None:
                self._update(changed.row, changed.alert, clock, "ended")
        newest = []
        for changed in recorded.values():
            alert = changed.alert
            newest.append(
                NewestPostRow(
                    alert_id=changed.id,
                    fingerprint=fingerprints[changed.id],
                    posted_at=from_micros(alert.posted),
                    ends={str(start): end for start, end in alert.ends.items()},
                    open_until=alert.fires_until if _find_end(alert, clock) is None else None,
                )
            )
        self._gateway.put(newest)

    def _add(self, rule: ActiveRule, new: Sequence[_RecordedAlert], clock: Micros) -> None:
        event_rows: list[NewEventRow] = []
        alerts: list[tuple[AlertDescriptionRow, AlertLifetimeRow]] = []
        for changed in new:
            event = changed.event
            assert event is not None
            event_rows.append(make_event_row(rule.name, rule.version, event, settled=True))
            description = AlertDescriptionRow(
                id=changed.id,
                eid=event.eid,
                rule=rule.name,
                version=rule.version,
                fingerprint=event.fingerprint,
                key=event.key,
                labels=event.key,
                annotations=changed.alert.annotations,
            )
            alerts.append((description, _make_lifetime(event.eid, changed.alert, clock)))
        self._events.put(event_rows)
        self._alerts.put(alerts)

    def _update(
        self, row: ExternalAlertRow, alert: PostedAlert, clock: Micros, reason: SilenceReason
    ) -> None:
        """Store an alert that was known, if its annotations or its end have changed."""
        ends_at = _find_end(alert, clock)
        if alert.annotations == row.annotations and ends_at == row.ends_at:
            return
        self._gateway.update_alert(
            row.id,
            annotations=alert.annotations,
            last_at=from_micros(alert.posted),
            ends_at=ends_at,
            end_reason=None if ends_at is None else reason,
        )


def _name_of(post: AlertPost) -> str:
    return post.labels.get("alertname", "")


def _find_end(alert: PostedAlert, clock: Micros) -> datetime | None:
    """When an alert has ended; None: it fires at a time of the clock."""
    if alert.fires_until > clock:
        return None
    return from_micros(max(alert.fires_until, alert.starts))


def _make_lifetime(eid: UUID, alert: PostedAlert, clock: Micros) -> AlertLifetimeRow:
    ends_at = _find_end(alert, clock)
    lifetime = AlertLifetime(
        eid=eid,
        starts=alert.starts,
        last=alert.starts,
        fired=alert.starts,
        ended=None if ends_at is None else to_micros(ends_at),
    )
    if ends_at is None:
        return make_lifetime_row(lifetime, "firing", lifetime)
    return make_lifetime_row(lifetime, "resolved", lifetime, "ended")


def _to_alert(row: ExternalAlertRow) -> PostedAlert:
    ends = {int(start): end for start, end in row.ends.items()}
    return PostedAlert(to_micros(row.starts_at), to_micros(row.posted_at), ends, row.annotations)


def _read_texts(text: str | None) -> dict[str, str]:
    """Texts by name of a JSON object; none if it is another value."""
    try:
        values = orjson.loads(text or "")
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(values, dict):
        return {}
    return {name: value for name, value in values.items() if isinstance(value, str)}
