"""Places of changes and alerts, and how far they are apart. No I/O."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Location = Mapping[str, str]
"""Values by name, such as `{"host": "a1", "service": "web"}`; without NULL."""


def to_location(values: Mapping[str, Any]) -> Location:
    """Values as text, without NULL."""
    return {name: to_text(value) for name, value in values.items() if value is not None}


def to_text(value: Any) -> str:
    """A value as nodes and places are named."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Topology:
    """Which nodes are neighbours, in either direction."""

    neighbours: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def distances(self, nodes: Iterable[str], steps: int) -> dict[str, int]:
        """The nodes up to some steps away from any of `nodes`, with their number of steps."""
        reached = {node: 0 for node in nodes if node in self.neighbours}
        edge = list(reached)
        for step in range(1, steps + 1):
            following = []
            for node in edge:
                for neighbour in self.neighbours[node]:
                    if neighbour not in reached:
                        reached[neighbour] = step
                        following.append(neighbour)
            edge = following
        return reached


def make_topology(edges: Iterable[tuple[str, str]]) -> Topology:
    """From pairs of source and target."""
    neighbours = defaultdict(set)
    for source, target in edges:
        neighbours[source].add(target)
        neighbours[target].add(source)
    return Topology({node: frozenset(nodes) for node, nodes in neighbours.items()})


@dataclass(frozen=True)
class Surrounding:
    """The places near an alert. `distances`: the nodes that its steps reach."""

    key: Location
    distances: Mapping[str, int]

    def distance(self, location: Location) -> int | None:
        """How many steps of the topology a place is away; None: it is not near.

        Where place and key have a name in common with different values, it is as far as these
        values are; else 0 with a name in common, or as far as the nearest of its values.
        """
        if not location:
            return 0  # it concerns every place
        shared = location.keys() & self.key.keys()
        other = [location[name] for name in shared if location[name] != self.key[name]]
        if other:
            steps = [self.distances.get(value) for value in other]
            reachable = [step for step in steps if step is not None]
            return max(reachable) if len(reachable) == len(steps) else None
        if shared:
            return 0
        return min(
            (self.distances[value] for value in location.values() if value in self.distances),
            default=None,
        )


def surround(key: Location, topology: Topology, steps: int) -> Surrounding:
    """The places up to some steps from a key."""
    return Surrounding(key, topology.distances(key.values(), steps))
