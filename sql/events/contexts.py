"""Contexts and surroundings of events."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class NewContextRow:
    """Contexts and surroundings to store, by name.

    `ts`: event time. `cut`: number of rows before truncation, by name of a truncated one.
    """

    rule: str
    version: str
    eid: UUID
    ts: datetime
    contexts: Mapping[str, Any]
    surroundings: Mapping[str, Any]
    cut: Mapping[str, int]
    settled: bool

    def parameters(self) -> dict[str, Any]:
        """The values of a statement that inserts the row."""
        cut = None
        if self.cut:
            cut = Jsonb(self.cut)
        return {
            "rule": self.rule,
            "version": self.version,
            "eid": self.eid,
            "ts": self.ts,
            "contexts": Jsonb(replace_nul(self.contexts)),
            "surroundings": Jsonb(replace_nul(self.surroundings)),
            "cut": cut,
            "settled": self.settled,
        }


@dataclass(frozen=True, slots=True)
class RecallEventRow:
    """An event that recalls are about. `ts`: event time in microseconds."""

    eid: UUID
    ts: int
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MissingContextRow(RecallEventRow):
    """An event without a context."""

    settled: bool


@dataclass(frozen=True, slots=True)
class UnsettledContextRow(RecallEventRow):
    """A settled event with a context that is not settled."""

    contexts: Mapping[str, Any]
    surroundings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UnrequestedEventRow(RecallEventRow):
    """An event without tasks of a recall. `background`: it is too old to be interactive.

    `previous`: see `recall.requests.RecallEvent`. `alerts`: stored forms of `recall.norms.AlertSpan`.
    `undecided`: they may still change, by the verdict of `where` about one of them.
    """

    background: bool
    previous: int | None
    alerts: Sequence[Sequence[Any]] | None
    undecided: bool


class RecallNeeds(NamedTuple):
    """What a recall needs of an event: its context, a settled one, the time of the alert before.

    `alerts`: the spans of the alerts of its key; `incidents`: also those of their incidents.
    """

    context: bool
    settled: bool
    previous: bool = False
    alerts: bool = False
    incidents: bool = False


class RecallOfVersion(NamedTuple):
    """A recall of a version of a rule."""

    rule: str
    version: str
    recall: str


@dataclass(frozen=True, slots=True)
class ContextRow:
    """Contexts and surroundings of an event, by name. `ts`: event time."""

    rule: str
    version: str
    eid: UUID
    ts: datetime
    contexts: Mapping[str, Any]
    surroundings: Mapping[str, Any]
    settled: bool


@dataclass(frozen=True, slots=True)
class ExportedContextRow:
    """Settled contexts and surroundings of an event, by name. `ts`: event time."""

    eid: UUID
    rule: str
    ts: datetime
    contexts: Mapping[str, Any]
    surroundings: Mapping[str, Any]


class ContextGateway(Gateway):
    """Contexts, identified by rule, version and event, and events whose contexts matter.

    `every_event`: recalls of the rule are about every event of an alert, else about its first.
    `unfired`: of alerts that have not fired, too.
    """

    queries = "contexts"

    def list_missing(
        self,
        rule: str,
        version: str,
        *,
        every_event: bool,
        unfired: bool = False,
        since: datetime | None,
        limit: int,
    ) -> list[MissingContextRow]:
        """Events without a context that recalls are about, in (ts, eid) order.

        `since`: only of alerts that changed since this wall-clock time; None: of all.
        """
        return self._records(
            MissingContextRow,
            "list_missing",
            rule=rule,
            version=version,
            every_event=every_event,
            unfired=unfired,
            since=since,
            limit=limit,
        )

    def list_unsettled(
        self,
        rule: str,
        version: str,
        *,
        before: datetime,
        recalls: Collection[str],
        limit: int,
    ) -> list[UnsettledContextRow]:
        """Settled events before an event time whose context is not, in (ts, eid) order.

        `recalls`: that contexts of the rule read; only events for which they have ended.
        """
        return self._records(
            UnsettledContextRow,
            "list_unsettled",
            rule=rule,
            version=version,
            before=before,
            recalls=list(recalls),
            limit=limit,
        )

    def has_open_recalls(self, rule: str, version: str, recalls: Collection[str]) -> bool:
        """Whether contexts of a version wait for recalls that they read."""
        return bool(
            self._value("has_open_recalls", rule=rule, version=version, recalls=list(recalls))
        )

    def list_unrequested(
        self,
        recall: RecallOfVersion,
        *,
        every_event: bool,
        needs: RecallNeeds,
        background_before: datetime,
        since: datetime | None,
        limit: int,
    ) -> list[UnrequestedEventRow]:
        """Events without tasks of a recall, in (ts, eid) order.

        `background_before`: an event time, before which events need a settled context if they need
        any. `since`: see `list_missing`.
        """
        return self._records(
            UnrequestedEventRow,
            "list_unrequested",
            **recall._asdict(),
            every_event=every_event,
            needs_context=needs.context,
            needs_settled=needs.settled,
            needs_previous=needs.previous,
            needs_alerts=needs.alerts,
            needs_incidents=needs.incidents,
            background_before=background_before,
            since=since,
            limit=limit,
        )

    def put(self, contexts: Iterable[NewContextRow]) -> None:
        """Store contexts. A settled one that is stored does not change."""
        self._execute_many("put", [context.parameters() for context in contexts])

    def touch_alerts(self, rule: str, version: str, eids: Collection[UUID]) -> None:
        """Mark the alerts of events as changed."""
        self._execute("touch_alerts", rule=rule, version=version, eids=list(eids))

    def delete_unneeded(self, rules_of_every_event: Collection[str]) -> None:
        """Delete contexts of events that settling did not confirm, or not as the first of an alert.

        The second only for rules not in `rules_of_every_event`.
        """
        self._execute("delete_unneeded", rules_of_every_event=list(rules_of_every_event))

    def list_of_events(self, eids: Collection[UUID]) -> list[ContextRow]:
        """The contexts of events, for each version of their rule, in no order."""
        return self._records(ContextRow, "list_of_events", eids=list(eids))

    def get(self, rule: str, version: str, eid: UUID) -> ContextRow | None:
        """The context of an event; None if it has none or it was deleted."""
        for context in self.list_of_events([eid]):
            if (context.rule, context.version) == (rule, version):
                return context
        return None

    def get_row_counts(self, rule: str, version: str, eid: UUID) -> dict[str, int]:
        """By truncated context or surrounding: the number of rows before truncation."""
        row_counts: dict[str, int] | None = self._value(
            "get_row_counts", rule=rule, version=version, eid=eid
        )
        return row_counts or {}

    def count_truncated(self) -> dict[str, int]:
        """The number of events with a truncated context or surrounding, by rule."""
        return self._pairs("count_truncated")

    def list_settled_ids(self, rule: str, version: str, eids: Collection[UUID]) -> set[UUID]:
        """The events among some that have a settled context."""
        return set(self._column("list_settled_ids", rule=rule, version=version, eids=list(eids)))

    def export(self) -> Iterator[ExportedContextRow]:
        """Settled contexts, oldest first."""
        return self._stream(ExportedContextRow, "export")
