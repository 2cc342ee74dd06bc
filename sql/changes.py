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
    """A stage of an event with its present rows. `revision`: how many times they have changed."""

    eid: UUID
    rule: str
    version: str
    name: str
    state: str
    revision: int
    error: str | None
    at: datetime
    rows: Sequence[Mapping[str, Any]]


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

    `forecast`: the probable resolutions, by the measure `learned`.
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
    answer: Sequence[Mapping[str, Any]]
    estimates: Sequence[Mapping[str, Any]] | None
    comparable: float | None
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

    def list_stages(self, stages: Collection[tuple[UUID, str, str]]) -> list[ChangedStageRow]:
        """Stages as they are now by event, version and name, in no order."""
        return self._records(
            ChangedStageRow,
            "list_stages",
            eids=[eid for eid, _, _ in stages],
            versions=[version for _, version, _ in stages],
            names=[name for _, _, name in stages],
        )

    def list_boundaries(self, events: Collection[tuple[UUID, str]]) -> list[EventEndRow]:
        """Those of some events, by ID and version, that have ended, in no order."""
        eids = [eid for eid, _ in events]
        versions = [version for _, version in events]
        return self._records(EventEndRow, "list_boundaries", eids=eids, versions=versions)

    def list_revisions(self, revisions: Collection[tuple[UUID, int]]) -> list[RevisionRow]:
        """Revisions by task and number, in no order; cancelled recalls have none."""
        tasks = [task for task, _ in revisions]
        numbers = [number for _, number in revisions]
        return self._records(RevisionRow, "list_revisions", tasks=tasks, numbers=numbers)

    def list_revisions_after(self, task: UUID, after: int, *, limit: int) -> list[RevisionRow]:
        """The revisions of a recall after a number, in order."""
        return self._records(
            RevisionRow, "list_revisions_after", task=task, after=after, limit=limit
        )
