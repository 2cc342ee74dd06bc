"""Routes, inhibition and the heartbeat of notifications, as the workspace file declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from pydantic import Field

from moirae.config.durations import Duration, PositiveDuration
from moirae.config.matchers import Matcher, Matchers
from moirae.config.time_intervals import NamedTimeIntervals
from moirae.documents.types import (
    ConfigModel,
    Flag,
    LabelName,
    Text,
    TextOrNumber,
    ValueProblem,
)

GROUP_BY_ALL = "..."
INCIDENT_LABEL = "incident"
"""In `group_by`: the incident of an alert."""
_MAX_DEPTH = 16  # levels of routes


class Route(ConfigModel):
    """Selects alerts for a receiver. Children inherit what they do not set."""

    match: Mapping[LabelName, TextOrNumber] = Field(
        default_factory=dict, description="Labels an alert must have; empty: all alerts."
    )
    matchers: Matchers = Field(
        default=(),
        description='Conditions in the syntax of Alertmanager, such as severity=~"page|ticket".',
    )
    receiver: Text | None = Field(
        default=None, description="Name of a receiver; null: that of the route above."
    )
    discard: Flag = Field(
        default=False,
        description="In place of receiver: alerts that take this route are not sent.",
    )
    group_by: tuple[Text, ...] | None = Field(
        default=None,
        description="Labels whose values make a group; ['...']: all; incident: one message for each "
        "incident of alerts; null: as the route above.",
    )
    group_wait: Duration | None = Field(
        default=None, description="Time until the first message of a group; null: 30s."
    )
    group_interval: PositiveDuration | None = Field(
        default=None, description="Time between messages about changes of a group; null: 5m."
    )
    repeat_interval: PositiveDuration | None = Field(
        default=None, description="Time until a message is repeated; null: 4h."
    )
    resolved_wait: Duration | None = Field(
        default=None,
        description="Time within which the end of all alerts of a group is reported; null: "
        "group_interval.",
    )
    changes_only: Flag | None = Field(
        default=None,
        description="Before repeat_interval, name only alerts that began or ended since the last "
        "message; null: false.",
    )
    active_time_intervals: tuple[Text, ...] = Field(
        default=(), description="Names of intervals outside of which nothing is sent."
    )
    mute_time_intervals: tuple[Text, ...] = Field(
        default=(), description="Names of intervals in which nothing is sent."
    )
    continue_: Flag = Field(
        default=False, alias="continue", description="Also try the routes after this one."
    )
    routes: tuple[Route, ...] = Field(default=(), description="Routes within this one.")

    @property
    def all_matchers(self) -> tuple[Matcher, ...]:
        """The conditions of `match` and `matchers`."""
        return (*(Matcher(name, "=", value) for name, value in self.match.items()), *self.matchers)


class InhibitRule(ConfigModel):
    """Alerts that the target matchers select are not sent while a source alert fires."""

    source_matchers: Matchers = Field(description="Conditions of alerts that inhibit others.")
    target_matchers: Matchers = Field(description="Conditions of alerts that are inhibited.")
    equal: tuple[Text, ...] = Field(
        default=(), description="Labels whose values must be equal in both alerts."
    )


class Heartbeat(ConfigModel):
    """A message at intervals as long as alerts would reach a receiver."""

    receiver: Text = Field(description="Name of the receiver.")
    every: PositiveDuration = Field(
        default=timedelta(minutes=1), description="Time between messages."
    )


def find_route_problems(
    routes: Sequence[Route],
    receivers: Mapping[str, object],
    intervals: Sequence[NamedTimeIntervals],
) -> Iterator[ValueProblem]:
    """What is wrong with routes: unknown names, and names that are missing."""
    names = {interval.name for interval in intervals}
    for index, route in enumerate(routes):
        if route.receiver is None and not route.discard:
            message = "receiver: a route of the first level needs one, or discard: true"
            yield ValueProblem((index,), message)
        yield from _find_problems(route, (index,), receivers, names)


def _find_problems(
    route: Route, path: tuple[str | int, ...], receivers: Mapping[str, object], names: set[str]
) -> Iterator[ValueProblem]:
    if route.receiver is not None and route.receiver not in receivers:
        message = f"unknown receiver {route.receiver[:80]!r}"
        yield ValueProblem((*path, "receiver"), message)
    if route.receiver is not None and route.discard:
        message = "a route has either a receiver, or discard: true"
        yield ValueProblem((*path, "discard"), message)
    for key in ("active_time_intervals", "mute_time_intervals"):
        for name in getattr(route, key):
            if name not in names:
                yield ValueProblem((*path, key), f"unknown time interval {name[:80]!r}")
    group_by = route.group_by or ()
    if GROUP_BY_ALL in group_by and len(group_by) > 1:
        yield ValueProblem((*path, "group_by"), "'...' stands for all labels: it stands alone")
    if len(set(group_by)) < len(group_by):
        yield ValueProblem((*path, "group_by"), "a label occurs twice")
    if len(path) > 2 * _MAX_DEPTH:
        yield ValueProblem(path, f"routes are nested deeper than {_MAX_DEPTH} levels")
        return
    for index, child in enumerate(route.routes):
        yield from _find_problems(child, (*path, "routes", index), receivers, names)
