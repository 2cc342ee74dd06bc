"""What changed, for live clients: alerts, recalls and revisions in the order of their commits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sql.gateway import Gateway


class ChangePosition(NamedTuple):
    """The position of a change: its transaction, and a number within all changes."""

    xid: int
    id: int


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change. `key`: the alert, the task of a recall or revision, or the event of a stage or
    boundary. `number`: of the revision. `version`: of the rule of the event. `name`: of the stage.
    """

    xid: int
    id: int
    kind: str
    key: UUID
    number: int | None
    at: datetime
    version: str | None
    name: str | None

    @property
    def position(self) -> ChangePosition:
        return ChangePosition(self.xid, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAlertRow:
    """The present state of an alert; times are event times, except `updated_at`."""

    id: UUID
    eid: UUID
    rule: str
    state: str
    history: str | None
    key: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: datetime
    fired_at: datetime | None
    last_at: datetime
    ends_at: datetime | None
    events: int
    updated_at: datetime
    acknowledged_by: str | None
    assigned_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRecallRow:
    """The present state of a recall. `read`: pieces that are done, of `pieces`."""

    id: UUID
    eid: UUID
    rule: str
    recall: str
    kind: str
    state: str
    revision: int
    read: int
    pieces: int | None
    failed: int
    tickets: int
    error: str | None
    deadline: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedStageRow:
    """A stage of an event with its present rows. `revision`: how many times they have changed.

    `rows`: None if they are larger than was asked for.
    """

    eid: UUID
    rule: str
    version: str
    name: str
    state: str
    revision: int
    error: str | None
    at: datetime
    rows: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class EventEndRow:
    """An event that has ended `at` some time: no revision of its recalls and stages follows."""

    rule: str
    version: str
    eid: UUID
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """A numbered answer of a recall. `sql`: the query of an SQL recall.

    `answer`: None if it is larger than was asked for. `forecast`: the probable resolutions, by the
    measure `learned`.
    """

    task: UUID
    eid: UUID
    rule: str
    recall: str
    kind: str
    sql: str | None
    number: int
    final: bool
    coverage: Mapping[str, Any]
    answer: Sequence[Mapping[str, Any]] | None
    estimates: Sequence[Mapping[str, Any]] | None
    comparable: float | None
    match: Mapping[str, Any] | None
    forecast: Mapping[str, Any] | None
    at: datetime


class ChangeGateway(Gateway):
    """The log of changes, and the rows that it names."""

    queries = "changes"

    def list_after(self, position: ChangePosition, *, limit: int) -> list[ChangeRow]:
        """Changes after a position, in order; a later call returns none before the last."""
        return self._records(
            ChangeRow, "list_after", xid=str(position.xid), id=position.id, limit=limit
        )

    def position(self) -> ChangePosition:
        """The position of the newest change that `list_after` returns."""
        return self._position("position")

    def oldest(self) -> ChangePosition:
        """The position of the oldest stored change; (0, 0) without changes."""
        return self._position("oldest")

    def _position(self, statement: str) -> ChangePosition:
        xid, number = self._execute(statement).fetchone() or (0, 0)
        return ChangePosition(xid, number)

    def delete_restored(self) -> None:
        """Delete the changes of another database cluster, from which this one was restored."""
        self._execute("delete_restored")

    def list_alerts(self, ids: Collection[UUID]) -> list[ChangedAlertRow]:
        """Alerts as they are now, in no order."""
        return self._records(ChangedAlertRow, "list_alerts", ids=list(ids))

    def list_recalls(self, ids: Collection[UUID]) -> list[ChangedRecallRow]:
        """Recalls as they are now, in no order."""
        return self._records(ChangedRecallRow, "list_recalls", ids=list(ids))

    def get_stage(
        self, eid: UUID, version: str, name: str, *, max_bytes: int
    ) -> ChangedStageRow | None:
        """A stage as it is now. `max_bytes`: of its rows as text; larger ones are left out."""
        return self._record(
            ChangedStageRow,
            "get_stage",
            eid=eid,
            version=version,
            name=name,
            max_bytes=max_bytes,
        )

    def list_boundaries(self, events: Collection[tuple[UUID, str]]) -> list[EventEndRow]:
        """Those of some events, by ID and version, that have ended, in no order."""
        eids = [eid for eid, _ in events]
        versions = [version for _, version in events]
        return self._records(EventEndRow, "list_boundaries", eids=eids, versions=versions)

    def get_revision(self, task: UUID, number: int, *, max_bytes: int) -> RevisionRow | None:
        """A revision of a recall; a cancelled one has none.

        `max_bytes`: of the answer with its estimates as text; larger ones are left out.
        """
        return self._record(
            RevisionRow, "get_revision", task=task, number=number, max_bytes=max_bytes
        )

    def list_revisions_after(self, task: UUID, after: int, *, limit: int) -> list[RevisionRow]:
        """The revisions of a recall after a number, in order."""
        return self._records(
            RevisionRow, "list_revisions_after", task=task, after=after, limit=limit
        )
