"""Which event, alert or recall an ID or the beginning of one means. Every command that takes an ID asks here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from psycopg import Connection

import sql
from moirae.errors import UsageError

_QUERIES = sql.load("lookup")

# The hyphens of an ID stand after so many digits.
_HYPHENS = (8, 12, 16, 20)
_DIGITS = 32


@dataclass(frozen=True)
class IdMatch:
    """What an ID means."""

    kind: Literal["event", "recall"]
    id: UUID


def find_event(connection: Connection[Any], prefix: str) -> UUID:
    """The event of an event's, an alert's or a recall's ID. An event of which nothing but its recalls is left is found
    too. Raises `UsageError` where there is none, or where the prefix matches several."""
    events = _found(connection, "events", prefix) or _found(connection, "events_of_recalls", prefix)
    if not events:
        raise UsageError(
            f"no event {prefix!a}, as `moirae events list` and `moirae alerts list` show them"
        )
    if len(events) > 1:
        raise _ambiguous(prefix, "events")
    return events[0]


def find_event_or_recall(connection: Connection[Any], prefix: str) -> IdMatch:
    """The event of an event's or an alert's ID, or else the recall of a recall's. Raises as `find_event` does."""
    events, recalls = _found(connection, "events", prefix), _found(connection, "recalls", prefix)
    if not events and not recalls:
        raise UsageError(
            f"no event or recall {prefix!a}, as `moirae events list` and `moirae recalls list` show them"
        )
    if len(events) + len(recalls) > 1:
        raise _ambiguous(prefix, "IDs of events and recalls" if events and recalls else "IDs")
    return IdMatch("event", events[0]) if events else IdMatch("recall", recalls[0])


def _found(connection: Connection[Any], query: str, prefix: str) -> Sequence[UUID]:
    """At most two, which is enough to know that the prefix is ambiguous."""
    bounds = _bounds(prefix)
    if bounds is None:
        return []
    values = {"low": bounds[0], "high": bounds[1]}
    return [row[0] for row in connection.execute(_QUERIES[query], values)]


def _bounds(prefix: str) -> tuple[UUID, UUID] | None:
    """The first and the last ID that begins so; None: no ID does."""
    digits = prefix.lower().replace("-", "")
    if not re.fullmatch(f"[0-9a-f]{{1,{_DIGITS}}}", digits) or not _hyphenated(digits).startswith(
        prefix.lower()
    ):
        return None
    return UUID(digits.ljust(_DIGITS, "0")), UUID(digits.ljust(_DIGITS, "f"))


def _hyphenated(digits: str) -> str:
    """Some first digits of an ID with the hyphens between them, also one that follows the last."""
    marked = [f"-{digit}" if place in _HYPHENS else digit for place, digit in enumerate(digits)]
    return "".join(marked) + ("-" if len(digits) in _HYPHENS else "")


def _ambiguous(prefix: str, what: str) -> UsageError:
    return UsageError(f"ambiguous: {prefix!a} begins several {what}; give more of the ID")
