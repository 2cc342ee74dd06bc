"""Lookup of events, alerts and recalls by ID or unique prefix, for every command that takes one."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import sql
from moirae.errors import NotFound, UsageError
from sql.reports import LookupGateway

_HYPHEN_POSITIONS = (8, 12, 16, 20)  # hexadecimal digits of a UUID before each hyphen
_DIGITS = 32  # hexadecimal digits of a UUID


@dataclass(frozen=True)
class IdMatch:
    """The event or recall that an ID names."""

    kind: Literal["event", "recall"]
    id: UUID


def find_event(connection: sql.Connection, prefix: str) -> UUID:
    """The event of an event, alert or recall ID or prefix.

    Events that have expired except for their recalls are included. Raises `UsageError` if the
    prefix matches no event, or several.
    """
    gateway = LookupGateway(connection)
    events = _find_ids(gateway.find_events, prefix)
    if not events:
        events = _find_ids(gateway.find_events_of_recalls, prefix)
    if not events:
        raise NotFound(
            f"no event with ID {prefix!a}; see `moirae events list` or `moirae alerts list`"
        )
    if len(events) > 1:
        raise _ambiguous(prefix, "events")
    return events[0]


def find_event_or_recall(connection: sql.Connection, prefix: str) -> IdMatch:
    """The event of an event or alert ID, or the recall of a recall ID. Raises as `find_event`."""
    gateway = LookupGateway(connection)
    events = _find_ids(gateway.find_events, prefix)
    recalls = _find_ids(gateway.find_recalls, prefix)
    if not events and not recalls:
        raise NotFound(
            f"no event or recall with ID {prefix!a}; "
            "see `moirae events list` or `moirae recalls list`"
        )
    if len(events) + len(recalls) > 1:
        raise _ambiguous(prefix, "events or recalls")
    if events:
        return IdMatch("event", events[0])
    return IdMatch("recall", recalls[0])


def _find_ids(find: Callable[[UUID, UUID], list[UUID]], prefix: str) -> list[UUID]:
    """The IDs with this prefix: at most two, as `find` returns them for a range of IDs."""
    bounds = _bounds(prefix)
    if bounds is None:
        return []
    return find(*bounds)


def _bounds(prefix: str) -> tuple[UUID, UUID] | None:
    """The lowest and the highest ID with this prefix; None if no ID can have it."""
    digits = prefix.lower().replace("-", "")
    if not re.fullmatch(f"[0-9a-f]{{1,{_DIGITS}}}", digits) or not _hyphenated(digits).startswith(
        prefix.lower()
    ):
        return None
    return UUID(digits.ljust(_DIGITS, "0")), UUID(digits.ljust(_DIGITS, "f"))


def _hyphenated(digits: str) -> str:
    """The first digits of a UUID with its hyphens, including one after the last digit."""
    text = ""
    for position, digit in enumerate(digits, 1):
        text += digit
        if position in _HYPHEN_POSITIONS:
            text += "-"
    return text


def _ambiguous(prefix: str, what: str) -> UsageError:
    return UsageError(
        f"ambiguous: {prefix!a} matches several {what}; give more characters of the ID"
    )
