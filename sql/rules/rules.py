"""Desired rules, and how often they changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class DesiredRuleRow:
    """A rule that should run: its definition as JSON text.

    `applied_at`: wall-clock time of its last change.
    """

    rule: str
    version: str
    definition: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class ListedRuleRow:
    """A desired rule with the state of its version.

    `settled_to`: event time in microseconds. `lost`: rows without a verdict. `seconds`: that its
    evaluation took in the last hour, if it is noticeable; `recall_seconds`: all its recalls.
    `alerts`: that fired, of which `firing` still fire.
    """

    rule: str
    version: str
    state: str
    settled_to: int | None
    error: str | None
    lost: int
    seconds: float
    last_fired_at: datetime | None
    firing: int
    alerts: int
    recalls: int
    recall_seconds: float


class RuleGateway(Gateway):
    """The desired rules. A change also raises the revision, which the live process polls."""

    queries = "rules"

    def list_all(self, rules: Sequence[str] | None = None) -> list[DesiredRuleRow]:
        """The desired rules with some names, by name; None: all."""
        return self._records(DesiredRuleRow, "list_all", rules=rules)

    def list_names(self) -> list[str]:
        """The names of all desired rules."""
        return self._column("list_names")

    def list_with_recalls(self) -> list[DesiredRuleRow]:
        """The desired rules that have recalls or stages, by name."""
        return self._records(DesiredRuleRow, "list_with_recalls")

    def list_event_queries(self) -> dict[str, str]:
        """The event query of each desired rule, by name; of a rule of absence, its stream."""
        return self._pairs("list_event_queries")

    def list_page(
        self,
        *,
        search: str | None,
        state: str | None,
        by_cost: bool,
        limit: int | None,
        offset: int,
        names: Sequence[str] | None = None,
    ) -> list[ListedRuleRow]:
        """Some desired rules, by name, or the most expensive ones first.

        `search`: a part of the name, in any case. `limit`: None lists all. `names`: only these.
        """
        return self._records(
            ListedRuleRow,
            "list_page",
            search=search,
            state=state,
            by_cost=by_cost,
            limit=limit,
            offset=offset,
            names=None if names is None else list(names),
        )

    def put(self, rule: str, version: str, definition: Mapping[str, Any]) -> None:
        """Add a rule, or replace its version and definition."""
        self._execute("put", rule=rule, version=version, definition=Jsonb(definition))

    def delete(self, rule: str) -> None:
        """Remove a rule."""
        self._execute("delete", rule=rule)

    def raise_revision(self) -> None:
        """Tell the live process that rules have changed."""
        self._execute("raise_revision")

    def lock_revision(self) -> None:
        """Block other changes of rules until the transaction ends."""
        self._execute("lock_revision")

    def revision(self) -> int:
        """The number of changes so far."""
        return int(self._value("get_revision"))
