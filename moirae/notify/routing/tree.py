"""The tree of routes: which receivers an alert takes, with which groups and times. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from moirae.config import GROUP_BY_ALL, INCIDENT_LABEL, Matcher, NamedTimeIntervals, Route
from moirae.config.matchers import format_matchers, match_all, sort_matchers

_ROOT_KEY = "{}"


@dataclass(frozen=True, kw_only=True)
class RouteOptions:
    """What a route says about its groups, with what it inherits. `group_by` None: all labels.

    `receiver` empty: alerts are not sent. `resolved_wait` None: the end of a group is reported
    after `group_interval`, as a change.
    """

    receiver: str = ""
    group_by: frozenset[str] | None = frozenset()
    group_wait: timedelta = timedelta(seconds=30)
    group_interval: timedelta = timedelta(minutes=5)
    repeat_interval: timedelta = timedelta(hours=4)
    resolved_wait: timedelta | None = None
    changes_only: bool = False


@dataclass(frozen=True, eq=False)
class RouteNode:
    """A route of the tree. `key`: as Alertmanager names it; `id`: also distinct between equal ones.

    `matchers`: sorted, without those of the routes above.
    """

    id: str
    key: str
    matchers: Sequence[Matcher]
    options: RouteOptions
    goes_on: bool = False
    active: Sequence[NamedTimeIntervals] = ()
    muted: Sequence[NamedTimeIntervals] = ()
    children: Sequence["RouteNode"] = ()

    def group_labels(
        self, labels: Mapping[str, str], incident: UUID | None = None
    ) -> dict[str, str]:
        """Those of an alert's labels that make its group; `incident` is one of them, if named."""
        names = self.options.group_by
        if names is None:
            return dict(labels)
        group_labels = {name: value for name, value in labels.items() if name in names}
        if self.groups_by_incident and incident is not None:
            group_labels.setdefault(INCIDENT_LABEL, str(incident))
        return group_labels

    @property
    def groups_by_incident(self) -> bool:
        """Whether one message is sent for each incident."""
        return INCIDENT_LABEL in (self.options.group_by or ())

    def is_muted(self, now: datetime) -> bool:
        """Whether time intervals hold back messages."""
        if self.active and not any(interval.contains(now) for interval in self.active):
            return True
        return any(interval.contains(now) for interval in self.muted)


def build_tree(routes: Sequence[Route], intervals: Sequence[NamedTimeIntervals] = ()) -> RouteNode:
    """The tree of the routes of a workspace. Its root has no receiver."""
    builder = _Builder({interval.name: interval for interval in intervals})
    return builder.build_root(routes)


class _Builder:
    def __init__(self, intervals: Mapping[str, NamedTimeIntervals]) -> None:
        self._intervals = intervals
        self._numbers: dict[str, int] = {}
        """Routes so far by their key: equal keys are numbered."""

    def build_root(self, routes: Sequence[Route]) -> RouteNode:
        options = RouteOptions()
        children = [self._build(route, _ROOT_KEY, options) for route in routes]
        return RouteNode(_ROOT_KEY, _ROOT_KEY, (), options, children=children)

    def _build(self, route: Route, parent_key: str, inherited: RouteOptions) -> RouteNode:
        matchers = sort_matchers(route.all_matchers)
        key = f"{parent_key}/{format_matchers(matchers)}"
        options = _override(inherited, route)
        numbered = f"{options.receiver} {key}"
        number = self._numbers[numbered] = self._numbers.get(numbered, 0) + 1
        return RouteNode(
            f"{numbered} {number}",
            key,
            matchers,
            options,
            route.continue_,
            [self._intervals[name] for name in route.active_time_intervals],
            [self._intervals[name] for name in route.mute_time_intervals],
            [self._build(child, key, options) for child in route.routes],
        )


def _override(inherited: RouteOptions, route: Route) -> RouteOptions:
    group_by = inherited.group_by
    if route.group_by is not None:
        group_by = None if GROUP_BY_ALL in route.group_by else frozenset(route.group_by)

    def choose(name: str) -> timedelta:
        own: timedelta | None = getattr(route, name)
        inherited_value: timedelta = getattr(inherited, name)
        return inherited_value if own is None else own

    changes_only = route.changes_only
    return RouteOptions(
        receiver="" if route.discard else route.receiver or inherited.receiver,
        group_by=group_by,
        group_wait=choose("group_wait"),
        group_interval=choose("group_interval"),
        repeat_interval=choose("repeat_interval"),
        resolved_wait=choose("resolved_wait"),
        changes_only=inherited.changes_only if changes_only is None else changes_only,
    )


def find_routes(root: RouteNode, labels: Mapping[str, str]) -> list[RouteNode]:
    """The routes that an alert takes, in order; none if it is not sent."""
    return [node for node in _find(root, labels) if node.options.receiver]


def _find(node: RouteNode, labels: Mapping[str, str]) -> list[RouteNode]:
    if not match_all(node.matchers, labels):
        return []
    nodes: list[RouteNode] = []
    for child in node.children:
        matching = _find(child, labels)
        nodes += matching
        if matching and not child.goes_on:
            break
    return nodes or [node]


def walk_tree(root: RouteNode, depth: int = 0) -> Iterator[tuple[int, RouteNode]]:
    """All routes below the root with their depth, in the order of the file."""
    for child in root.children:
        yield depth, child
        yield from walk_tree(child, depth + 1)
