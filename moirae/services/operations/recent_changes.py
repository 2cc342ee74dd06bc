"""What changed near an event in time and place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from moirae.alerts import find_event
from moirae.runtime.storage import archived_streams, open_storage
from moirae.services.models import Arguments, IdPrefix, Seconds
from moirae.services.operation import operation

if TYPE_CHECKING:
    from moirae.recent_changes import RankedChange
    from moirae.services.workspace import LocalWorkspace

_MAX_WITHIN = 7 * 86_400.0  # seconds
_MAX_RANGE = 400 * 86_400.0  # seconds
_MAX_LISTED = 50


class ChangesQuery(Arguments):
    """Which changes are near, and with which hours they are compared."""

    within: Seconds = Field(
        6 * 3600,
        ge=60,
        le=_MAX_WITHIN,
        description="How long before the event a change may be, in s or as text such as `6h`.",
    )
    range: Seconds = Field(
        56 * 86_400,
        ge=3600,
        le=_MAX_RANGE,
        description="Hours of so long before the event are compared, in s or as text such as `56d`.",
    )


@dataclass(frozen=True)
class HourComparison:
    """How often a change of the kind came before hours with an alert of the rule, and without.

    Of all keys of the rule. `ratio`: of the two shares, with its 95 % interval; None where no hour
    without an alert has such a change.
    """

    alert_hours: int
    with_change: int
    other_hours: int
    other_with_change: int
    ratio: float | None
    low: float
    high: float


@dataclass(frozen=True)
class ListedChange:
    """A change before the event.

    `steps`: how far its place is in the relation topology. `similar_with_change`: before how
    many of the `similar` most similar past alerts such a change came. `not_compared`: why `hours` is None.
    `sentence`: all of it in words.
    """

    stream: str
    ts: datetime
    what: str
    place: Mapping[str, str]
    steps: int
    similar: int
    similar_with_change: int
    hours: HourComparison | None
    not_compared: str | None
    sentence: str


@dataclass(frozen=True)
class UnreadStream:
    """A stream of changes of which nothing was read, and why."""

    stream: str
    reason: str


@dataclass(frozen=True)
class EventChanges:
    """What changed before an event; first those after which alerts were most frequent.

    It names no cause. `streams`: those that declare changes. `omitted`: number of further changes that are not listed.
    """

    ts: datetime
    within_seconds: float
    streams: Sequence[str]
    changes: Sequence[ListedChange]
    omitted: int
    unread: Sequence[UnreadStream]


@operation("GET", "/events/{event}/changes", role="viewer")
def list_changes(workspace: "LocalWorkspace", event: IdPrefix, query: ChangesQuery) -> EventChanges:
    """Show what changed near an event in time and place, as streams declare `changes`."""
    from moirae.recent_changes import load_recent_changes

    settings, connection = workspace.settings, workspace.connection
    recent = load_recent_changes(
        settings,
        open_storage(settings),
        archived_streams(settings, connection),
        connection,
        find_event(connection, event),
        within=timedelta(seconds=query.within),
        span=timedelta(seconds=query.range),
    )
    listed = [_list_change(entry, recent.ts) for entry in recent.changes[:_MAX_LISTED]]
    return EventChanges(
        ts=recent.ts,
        within_seconds=query.within,
        streams=recent.streams,
        changes=listed,
        omitted=len(recent.changes) - len(listed),
        unread=[UnreadStream(entry.stream, entry.reason) for entry in recent.unread],
    )


def _list_change(entry: "RankedChange", ts: datetime) -> ListedChange:
    from archiver.times import from_micros
    from moirae.recent_changes import HourCounts, describe_change

    hours, reason = None, None
    if isinstance(entry.hours, HourCounts):
        hours = HourComparison(**vars(entry.hours))
    else:
        reason = entry.hours
    return ListedChange(
        stream=entry.change.stream,
        ts=from_micros(entry.change.ts),
        what=entry.change.what,
        place=entry.change.place,
        steps=entry.steps,
        similar=entry.similar,
        similar_with_change=entry.similar_with_change,
        hours=hours,
        not_compared=reason,
        sentence=describe_change(entry, ts),
    )
