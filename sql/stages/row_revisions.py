"""Row revisions: answers of recalls and stages as streams of changed rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul

RowJson = Mapping[str, Any]
# Event, version, time of the event as ISO 8601 text; operation, key, new row, old row.
ChangeJson = tuple[str, str, str, str, str, RowJson | None, RowJson | None]


@dataclass(frozen=True, slots=True)
class RevisionStreamRow:
    """A stream: of a recall or stage (`name`) of a rule.

    `last_seq`: the number of its last revision; `archived`: of the last one in the archive.
    `trimmed_to`: up to which number the archive alone may have revisions.
    """

    id: int
    rule: str
    name: str
    last_seq: int
    archived: int
    trimmed_to: int


@dataclass(frozen=True, slots=True)
class AppendedRevisions:
    """The revisions of a stream with numbers greater than `before`, up to `last`."""

    id: int
    before: int
    last: int


@dataclass(frozen=True, slots=True)
class RowRevisionRow:
    """A row revision. `ts`: of its event. `row_key`: JSON; empty for a boundary.

    `at`: when it was stored; None if the archive alone has it.
    """

    seq: int
    eid: UUID
    version: str
    ts: datetime
    op: str
    row_key: str
    row: RowJson | None
    old_row: RowJson | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class EventRevisionRow:
    """A row revision of the stream `name` of some rule."""

    name: str
    seq: int
    eid: UUID
    version: str
    op: str
    row_key: str
    row: RowJson | None


@dataclass(frozen=True, slots=True)
class CurrentRow:
    """A row of an event that no later revision has deleted."""

    name: str
    row_key: str
    row: RowJson


@dataclass(frozen=True, slots=True)
class ValidRow:
    """A row of an event with the key of the event, or one of its revisions (`op`, `row_key`)."""

    seq: int
    eid: UUID
    version: str
    ts: datetime
    op: str
    row_key: str | None
    row: RowJson | None
    key: RowJson


@dataclass(frozen=True, slots=True)
class ChangedEventRow:
    rule: str
    version: str
    eid: UUID


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage of an event with its present rows. `revision`: how many times they have changed."""

    eid: UUID
    rule: str
    version: str
    name: str
    state: str
    revision: int
    error: str | None
    key: RowJson
    rows: Sequence[RowJson]


class RowRevisionGateway(Gateway):
    """The revision streams of all rules, numbered without gaps in the order of commits.

    A transaction that appends to several streams does so in the order of (rule, name), as all do.
    """

    queries = "row_revisions"

    def append(
        self, rule: str, name: str, changes: Sequence[ChangeJson]
    ) -> AppendedRevisions | None:
        """Store changes of the rows of events as the next revisions of a stream."""
        if not changes:
            return None
        return self._record(
            AppendedRevisions,
            "append",
            rule=rule,
            name=name,
            count=len(changes),
            changes=Jsonb(replace_nul(changes)),
        )

    def list_current(
        self, rule: str, version: str, eid: UUID, name: str | None = None
    ) -> list[CurrentRow]:
        """The present rows of an event, of one stream or of all."""
        return self._records(
            CurrentRow, "list_current", rule=rule, version=version, eid=eid, name=name
        )

    def list_of_events(
        self, rule: str, positions: Sequence[tuple[str, UUID, str, int]]
    ) -> list[EventRevisionRow]:
        """Revisions in order; `positions`: (stream name, event, version, number to start behind)."""
        if not positions:
            return []
        names, eids, versions, after = zip(*positions, strict=True)
        return self._records(
            EventRevisionRow,
            "list_of_events",
            rule=rule,
            names=list(names),
            eids=list(eids),
            versions=list(versions),
            after=list(after),
        )

    def list_changed_events(self, positions: Mapping[int, int]) -> list[ChangedEventRow]:
        """The events that have revisions behind a number; `positions`: numbers by stream ID."""
        return self._records(
            ChangedEventRow,
            "list_changed_events",
            streams=list(positions),
            after=list(positions.values()),
        )

    def list_streams(self) -> list[RevisionStreamRow]:
        """All streams, by rule and name."""
        return self._records(RevisionStreamRow, "list_streams")

    def get_stream(self, stream: int) -> RevisionStreamRow:
        """A stream that exists."""
        row = self._record(RevisionStreamRow, "get_stream", stream=stream)
        assert row is not None
        return row

    def list_streams_of_open_events(self) -> list[RevisionStreamRow]:
        """The streams of rules that have open events with stages or a condition."""
        return self._records(RevisionStreamRow, "list_of_open_events")

    def find_streams(self, name: str) -> list[RevisionStreamRow]:
        """The streams of a name: NAME, ALERT/NAME or GROUP/ALERT/NAME."""
        return self._records(RevisionStreamRow, "find_streams", name=name)

    def read(self, stream: int, *, after: int, limit: int | None) -> list[RowRevisionRow]:
        """The revisions behind a number, in order."""
        return self._records(RowRevisionRow, "read", stream=stream, after=after, limit=limit)

    def list_rows(
        self,
        rule: str,
        name: str,
        *,
        all_revisions: bool,
        start: datetime | None,
        end: datetime | None,
    ) -> list[ValidRow]:
        """The present rows of events in a range of event time, or all revisions of them."""
        selection = {"rule": rule, "name": name, "start": start, "end": end}
        if all_revisions:
            return self._records(ValidRow, "list_revisions", **selection)
        return self._records(ValidRow, "list_rows", **selection)

    def list_event_keys(self, rule: str, eids: Collection[UUID]) -> dict[tuple[UUID, str], RowJson]:
        """The keys of events of a rule, by event and version."""
        rows = self._execute("list_event_keys", rule=rule, eids=list(eids)).fetchall()
        return {(eid, version): key for eid, version, key in rows}

    def boundary(self, rule: str) -> datetime | None:
        """The event time before which all events of a rule have their boundary; None: unknown."""
        time: datetime | None = self._value("boundary", rule=rule)
        return time

    def count_open_events(self, rules: Sequence[str]) -> int:
        """Number of events of some rules without boundary."""
        return int(self._value("count_open_events", rules=list(rules)))

    def expired_before(self, rule: str) -> datetime | None:
        """The event time before which the revisions of a rule have expired; None: none have."""
        time: datetime | None = self._value("expired_before", rule=rule)
        return time

    def lock_archive(self) -> bool:
        """Lock the archive of revisions until the transaction ends; False: another process has."""
        return bool(self._value("lock_archive"))

    def record_archived(self, stream: int, number: int) -> None:
        """Record that the revisions up to a number are archived."""
        self._execute("record_archived", stream=stream, number=number)

    def forget_archived(self, stream: int) -> None:
        """Record that no revisions are archived: their tables are gone."""
        self._execute("forget_archived", stream=stream)

    def list_stages(self, eid: UUID) -> list[StageRow]:
        """The stages of an event, by version and name."""
        return self._records(StageRow, "export_stages", eid=eid)

    def export_stages(self) -> Iterator[StageRow]:
        """The stages of all events, oldest event first."""
        return self._stream(StageRow, "export_stages", eid=None)
