"""Views: the past of a version of a rule in one chunk."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap

from sql.alerts import NewAlert, to_json_row
from sql.events import NewContextRow, NewEventRow
from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class ViewRow:
    """How far a view is stored.

    `upto`: events of the chunk before this event time (microseconds) are stored; None: it was only
    attempted. `tries`: attempts since it was stored last.
    """

    chunk: int
    upto: int | None
    tries: int


@dataclass(frozen=True, slots=True)
class ViewProgressRow:
    """Progress of the views of a running version over the chunks of one state.

    `chunks`, `with_view`, `failed`: numbers of chunks, in all, with a view, and without one after an
    error. `events`, `corpus`: stored events, and those of them in the corpus. `seconds`: time
    spent. `error`: the last error by name; None if there is none.
    """

    rule: str
    version: str
    state: str
    chunks: int
    with_view: int
    failed: int
    events: int
    corpus: int
    seconds: float
    error: str | None


class ViewGateway(Gateway):
    """Views and what they add to events, alerts and contexts.

    A view is identified by rule, version and chunk.
    """

    queries = "views"

    def list_of_version(self, rule: str, version: str) -> list[ViewRow]:
        """The views of a version, in no order."""
        return self._records(ViewRow, "list_of_version", rule=rule, version=version)

    def try_lock(self, name: str) -> bool:
        """Take the advisory lock of a task for this session. False: another session has it."""
        return bool(self._value("try_lock", name=name))

    def unlock(self, name: str) -> None:
        """Release an advisory lock that `try_lock` has taken."""
        self._execute("unlock", name=name)

    def begin_attempt(self, rule: str, version: str, chunk: int, *, requested: bool) -> None:
        """Count an attempt. `requested`: a recall waits for the view."""
        values = {"rule": rule, "version": version, "chunk": chunk}
        self._execute("begin_attempt", **values, requested=requested)

    def undo_attempt(self, rule: str, version: str, chunk: int) -> None:
        """Undo the count of an attempt that an orderly shutdown interrupted."""
        self._execute("undo_attempt", rule=rule, version=version, chunk=chunk)

    def set_error(self, rule: str, version: str, chunk: int, *, error: str) -> None:
        """Record why a view could not be computed."""
        values = {"rule": rule, "version": version, "chunk": chunk}
        self._execute("set_error", **values, error=replace_nul(error))

    def complete(
        self,
        rule: str,
        version: str,
        chunk: int,
        *,
        chunk_from: datetime | None,
        complete_until: datetime,
        seconds: float,
    ) -> None:
        """Record that a view is stored up to an event time, and count its events.

        `chunk_from`: start of the chunk; None: the beginning of time. `seconds`: time spent.
        """
        self._execute(
            "complete",
            rule=rule,
            version=version,
            chunk=chunk,
            chunk_from=chunk_from,
            complete_until=complete_until,
            seconds=seconds,
        )

    def insert_events(self, events: Iterable[NewEventRow]) -> None:
        """Store past events that are not stored."""
        self._execute_rows("insert_event", list(map(NewEventRow.to_json, events)))

    def insert_alerts(self, alerts: Iterable[NewAlert]) -> None:
        """Store past alerts that are not stored."""
        self._execute_rows("insert_alert", list(starmap(to_json_row, alerts)))

    def extend_alerts(
        self,
        rule: str,
        version: str,
        *,
        low: datetime | None,
        high: datetime,
        live_from: datetime,
        keep_seconds: float,
    ) -> None:
        """Extend past alerts that cross `low` or `high`, by the events stored by now.

        Only events before `live_from` count. `keep_seconds`: `keep_firing_for` of the rule.
        """
        self._execute(
            "extend_alerts",
            rule=rule,
            version=version,
            low=low,
            high=high,
            live_from=live_from,
            keep_seconds=keep_seconds,
        )

    def insert_contexts(self, contexts: Iterable[NewContextRow]) -> None:
        """Store contexts of past events as settled, unless a settled one is stored."""
        self._execute_many("insert_context", [context.parameters() for context in contexts])

    def list_progress(self) -> list[ViewProgressRow]:
        """The progress of running versions with a past, by rule and chunk state."""
        return self._records(ViewProgressRow, "list_progress")
