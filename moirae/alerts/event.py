"""Events: what a rule's query found, with identities that depend on nothing but the find itself."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from archiver.times import from_micros

# Names of everything whose identity follows from its content.
NAMESPACE = UUID("6f6d4a58-7a0b-5c5e-9a53-2f0a8c1d7e11")


@dataclass(frozen=True)
class EventRow:
    """A row of a rule's event query: event time in microseconds, attributes by column, in column order."""

    ts: int
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """A unique event of a rule. `key`: the values of the rule's key columns; `fingerprint`: these as text."""

    eid: UUID
    ts: int
    key: Mapping[str, Any]
    fingerprint: str
    attributes: Mapping[str, Any]


def canonical_json(values: Sequence[Any]) -> str:
    """Values as text, one way."""
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def make_event_id(rule: str, id_columns: Sequence[str], row: EventRow) -> UUID:
    """UUIDv5 of (group and alert name, id columns, ts): the same find has the same eid wherever it is made."""
    name = [
        rule,
        *(row.attributes.get(column) for column in id_columns),
        from_micros(row.ts).isoformat(),
    ]
    return uuid5(NAMESPACE, canonical_json(name))


def make_alert_id(rule: str, eid: UUID) -> UUID:
    """The alert of a rule that an event begins."""
    return uuid5(NAMESPACE, f"alert {rule} {eid}")


def deduplicate(
    rule: str, id_columns: Sequence[str], key_columns: Sequence[str], rows: Iterable[EventRow]
) -> list[Event]:
    """The events in (ts, eid) order. Of finds equal in (id, ts), the smallest in column order is the event."""
    chosen: dict[UUID, EventRow] = {}
    for found in rows:
        eid = make_event_id(rule, id_columns, found)
        other = chosen.get(eid)
        if other is None or _sort_key(found) < _sort_key(other):
            chosen[eid] = found
    events = [_make_event(eid, key_columns, found) for eid, found in chosen.items()]
    return sorted(events, key=lambda e: (e.ts, e.eid))


def _make_event(eid: UUID, key_columns: Sequence[str], found: EventRow) -> Event:
    key = {column: found.attributes.get(column) for column in key_columns}
    return Event(eid, found.ts, key, canonical_json(list(key.values())), found.attributes)


def _sort_key(found: EventRow) -> list[tuple[int, Any]]:
    """Compares rows column by column: no value first, then numbers, then the rest as text."""
    return [_value_sort_key(value) for value in found.attributes.values()]


def _value_sort_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, int | float):
        return (1, value)
    return (2, value if isinstance(value, str) else canonical_json([value]))
