"""What operators found out about events, and from when on it was known. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from archiver.times import Micros


@dataclass(frozen=True, slots=True)
class Resolution:
    """The tag of an event's resolution, used from `known_at` on."""

    event_id: str
    tag: str
    known_at: Micros


class GroupedEvent(NamedTuple):
    """An event. `group`: events of one alert or incident; None: its own."""

    event_id: str
    ts: Micros
    group: str | None


def find_usable_times(
    events: Iterable[GroupedEvent], known_times: Mapping[str, Micros], gap: Micros
) -> dict[str, Micros]:
    """For each resolved event, the event time of the first event that may use its tag.

    `known_times`: when the tag was known, by event ID. A tag may be used when it is known and its
    event is older by `gap`, and by one microsecond at least. That of an event of a group may be
    used once the last one of the group is old enough: a group is never split between events to
    learn from and events to predict.
    """
    usable_times: dict[str, Micros] = {}
    group_by_event: dict[str, str] = {}
    end_by_group: dict[str, Micros] = {}
    for event in events:
        usable_from = event.ts + max(gap, 1)
        if event.group is not None:
            group_by_event[event.event_id] = event.group
            end = end_by_group.get(event.group, usable_from)
            end_by_group[event.group] = max(end, usable_from)
        if event.event_id in known_times:
            usable_times[event.event_id] = max(usable_from, known_times[event.event_id])
    for event_id, usable_from in usable_times.items():
        if event_id in group_by_event:
            group_end = end_by_group[group_by_event[event_id]]
            usable_times[event_id] = max(usable_from, group_end)
    return usable_times
