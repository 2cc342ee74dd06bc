"""Events of rules and their identities, which depend on the row and the rule only."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1, sha256
from typing import Any
from uuid import UUID

import orjson

from archiver.times import Micros, from_micros

# UUIDv5 namespace of events and alerts. Stored IDs depend on it.
NAMESPACE = UUID("6f6d4a58-7a0b-5c5e-9a53-2f0a8c1d7e11")
_HASHED_NAMESPACE = sha1(NAMESPACE.bytes, usedforsecurity=False)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Types that orjson writes like `json`, in a quarter of the time; it refuses integers of more than 64
# bits, and writes some floats differently.
_TYPES_WRITTEN_ALIKE = frozenset((str, int, bool, type(None)))
# Of a fingerprint, in bytes: PostgreSQL indexes no rows of more than 2,704.
_MAX_FINGERPRINT = 1000
# Version 5 and variant RFC 4122 of a UUID.
_UUID_BITS = 0x5000_8000_0000_0000_0000
_UUID_MASK = ~0xF000_C000_0000_0000_0000


@dataclass(frozen=True)
class EventRow:
    """A row of a rule's event query: event time, attributes in column order."""

    ts: Micros
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """A unique event of a rule.

    `ts`: event time. `key`: the values of the rule's key columns.
    `fingerprint`: see `make_fingerprint`.
    """

    eid: UUID
    ts: Micros
    key: Mapping[str, Any]
    fingerprint: str
    attributes: Mapping[str, Any]


def canonical_json(values: Sequence[Any]) -> str:
    """Values as JSON in one fixed form: no white space, no ASCII escapes.

    Stored IDs depend on it: numbers are written as Python's `json` writes them.
    """
    if _TYPES_WRITTEN_ALIKE.issuperset(map(type, values)):
        try:
            return orjson.dumps(values).decode()
        except TypeError:  # a text with half of a surrogate pair
            pass
    return _encode(values)


def write_object(values: Mapping[str, str]) -> str:
    """Texts by name as a JSON object, in the order given, as `canonical_json` writes values."""
    return _encode(dict(values))


def make_fingerprint(key: Mapping[str, Any]) -> str:
    """The values of a key as canonical JSON; of those that are too long for an index, a digest."""
    fingerprint = canonical_json(list(key.values()))
    encoded = fingerprint.encode(errors="surrogatepass")
    if len(encoded) <= _MAX_FINGERPRINT:
        return fingerprint
    return f"sha256:{sha256(encoded).hexdigest()}"


def make_event_id(rule: str, id_columns: Sequence[str], row: EventRow) -> UUID:
    """UUIDv5 of (group and alert name, id columns, ts).

    Equal rows get equal IDs, whether found live, after a restart or in history.
    """
    name = [
        rule,
        *(row.attributes.get(column) for column in id_columns),
        from_micros(row.ts).isoformat(),
    ]
    return _make_id(canonical_json(name))


def make_incident_id(alert: UUID) -> UUID:
    """The ID of the incident that begins with an alert."""
    return _make_id(f"incident {alert}")


def make_alert_id(rule: str, eid: UUID) -> UUID:
    """The ID of the alert of a rule that starts with an event."""
    return _make_id(f"alert {rule} {eid}")


def _make_id(name: str) -> UUID:
    """`uuid.uuid5` in a third of the time: two IDs are made for each event that becomes an alert."""
    hashed = _HASHED_NAMESPACE.copy()
    hashed.update(name.encode())
    number = int.from_bytes(hashed.digest()[:16], "big")
    return UUID(int=number & _UUID_MASK | _UUID_BITS)


def deduplicate(
    rule: str, id_columns: Sequence[str], key_columns: Sequence[str], rows: Iterable[EventRow]
) -> list[Event]:
    """The events in (ts, eid) order.

    Of rows equal in (id, ts), the smallest in column order is the event.
    """
    rows_by_id: dict[UUID, EventRow] = {}
    for row in rows:
        eid = make_event_id(rule, id_columns, row)
        previous = rows_by_id.get(eid)
        if previous is None or _sort_key(row) < _sort_key(previous):
            rows_by_id[eid] = row
    events = [_make_event(eid, key_columns, row) for eid, row in rows_by_id.items()]
    return sorted(events, key=lambda event: (event.ts, event.eid))


def make_event(
    rule: str, id_columns: Sequence[str], key_columns: Sequence[str], row: EventRow
) -> Event:
    """The event of a row that is the only one with its ID."""
    return _make_event(make_event_id(rule, id_columns, row), key_columns, row)


def _make_event(eid: UUID, key_columns: Sequence[str], row: EventRow) -> Event:
    key = {column: row.attributes.get(column) for column in key_columns}
    return Event(eid, row.ts, key, make_fingerprint(key), row.attributes)


def _sort_key(row: EventRow) -> list[tuple[int, Any]]:
    """Orders rows column by column: NULL first, then numbers, then all other values as text."""
    return list(map(_value_sort_key, row.attributes.values()))


def _value_sort_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, int | float):
        return (1, value)
    if isinstance(value, str):
        return (2, value)
    return (2, canonical_json([value]))
