"""The events and alerts of rules as tables of a check session."""

from collections.abc import Callable

from archiver.delta import ARROW_TYPES
from moirae.config import Settings
from moirae.rules.alert_table import ALERT_COLUMNS, ALERTS
from moirae.rules.checks.check_session import CheckSession
from moirae.rules.definition import Definition
from moirae.rules.event_names import EventNames, full_name
from moirae.rules.event_streams import build_event_streams, find_refusal
from moirae.rules.external import EXTERNAL_PREFIX
from moirae.rules.rule_set import EventStream, RevisionStream

# Event streams and derived streams behind the events that a query reads: each is a subquery.
MAX_EVENT_STREAMS = 32

FindDefinition = Callable[[str], Definition | None]
"""The definition of a rule, perhaps without what its questions add; None: it has errors."""


class RuleTables:
    """Finds what event streams and alerts stand for, and creates an empty view of each."""

    def __init__(
        self,
        session: CheckSession,
        settings: Settings,
        rule_names: EventNames,
        find_definition: FindDefinition,
    ) -> None:
        self._session = session
        self._settings = settings
        self._rule_names = rule_names
        self._find_definition = find_definition
        self._views: set[str] = set()

    def find_events(self, name: str, group: str) -> list[EventStream]:
        """An event stream, after those that it reads. Raises `LookupError` with the reason."""
        producer = self._rule_names.resolve(name, group)
        definition = self._find_definition(producer)
        if definition is None:
            raise LookupError(f"{name}: rule {producer} has errors")
        streams = build_event_streams(name, definition, self._settings.streams)
        if len(streams) > MAX_EVENT_STREAMS:
            raise LookupError(
                f"{name}: its events follow from {len(streams):,} queries of other rules and groups; "
                f"the limit is {MAX_EVENT_STREAMS}"
            )
        return streams

    def find_stored_events(self, name: str, group: str) -> RevisionStream | None:
        """The stored events of a rule whose events no query computes; None: one does."""
        producer = self._rule_names.resolve(name, group)
        definition = self._find_definition(producer)
        if definition is None or find_refusal(definition) is None:
            return None
        columns = {"ts": "timestamp"}
        columns |= {name: kind for name, kind in definition.types.items() if kind in ARROW_TYPES}
        stream = RevisionStream(name, producer, "", columns)
        self.create_revision_view(stream)
        return stream

    def make_alerts(self, bound: frozenset[str]) -> RevisionStream:
        """The alerts of some rules. Raises `LookupError` with the reason."""
        for name in sorted(bound):
            if name not in self._rule_names.rules and not name.startswith(EXTERNAL_PREFIX):
                raise LookupError(
                    f"alerts: there is no rule {name!r}; write its full name, GROUP/NAME"
                )
        stream = RevisionStream(ALERTS, "", "", ALERT_COLUMNS, rules=tuple(sorted(bound)))
        self.create_revision_view(stream)
        return stream

    def create_event_view(self, stream: EventStream) -> None:
        """Let queries read an event stream."""
        view = full_name(stream.rule)
        if view not in self._views:
            self._session.create_view(view, stream.columns)
            self._views.add(view)

    def create_revision_view(self, stream: RevisionStream) -> None:
        """Let queries read alerts or stored events."""
        if stream.table not in self._views:
            self._session.create_view(stream.table, stream.columns)
            self._views.add(stream.table)
