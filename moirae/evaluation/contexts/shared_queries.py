"""Context queries that several rules share, and which rows they need. No I/O."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from archiver.time_range import TimeRange
from moirae.evaluation.contexts.queries import LiftedContextQuery
from moirae.evaluation.plan import ActiveRule
from recall.engines.attribute_values import find_values, join_values
from recall.requests import RecallEvent

TextsByEvent = dict[tuple[str, str], dict[str, list[str]]]
"""Rows as JSON texts: by rule name and event ID, then by name of the context."""


@dataclass
class SharedQuery:
    """A context query, the events of the rules that have it, and what each event's rows are for.

    `types`: the attributes that all of the rules have in common. `rules`: that have the query.
    `readers`: rule name and name of the context, by event ID, which is different for events of
    different rules.
    """

    query: LiftedContextQuery
    types: dict[str, str] = field(init=False)
    rules: list[ActiveRule] = field(default_factory=list)
    events: dict[str, RecallEvent] = field(default_factory=dict)
    readers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.types = dict(self.query.types)

    def add(
        self, rule: ActiveRule, query: LiftedContextQuery, events: Sequence[RecallEvent]
    ) -> None:
        """Add a rule's equal query for some events."""
        self.types = {
            name: type_name
            for name, type_name in self.types.items()
            if query.types.get(name) == type_name
        }
        if self.rules[-1:] != [rule]:
            self.rules.append(rule)
        for event in events:
            eid = str(event.eid)
            self.events[eid] = event
            self.readers.setdefault(eid, []).append((rule.name, query.name))

    @property
    def events_key(self) -> Hashable:
        """Equal for queries whose events have the same table."""
        return frozenset(self.events), frozenset(self.types.items())

    @property
    def rule_names(self) -> list[str]:
        """The names of the rules."""
        return [rule.name for rule in self.rules]

    def time_ranges(self) -> list[TimeRange]:
        """For each event, the event times of the rows that it needs."""
        return self.query.time_ranges(list(self.events.values()))

    def add_labels(self, texts: TextsByEvent) -> None:
        """Add the labels of posted alerts, which are their keys, each as one row."""
        for eid, event in self.events.items():
            self.add_text(texts, eid, orjson.dumps(dict(event.key)).decode())

    def add_text(self, texts: TextsByEvent, eid: str, text: str) -> None:
        """Add a row of an event to the contexts that it is for."""
        for rule_name, name in self.readers[eid]:
            texts.setdefault((rule_name, eid), {}).setdefault(name, []).append(text)


def find_allowed_values(
    stream: str, columns: Mapping[str, str], readers: Sequence[SharedQuery]
) -> dict[str, list[str]]:
    """The values of the text columns by which all readers of a stream filter, sorted."""
    parts: list[dict[str, list[str]]] = []
    for reader in readers:
        lifted = reader.query.lifted
        values: dict[str, list[str]] = {}
        if stream not in lifted.inputs.derived:
            events = reader.events.values()
            values = find_values(lifted, stream, columns, reader.query.types, events)
        parts.append(values)
    return join_values(parts)
