"""What an alert has in common with others: terms of its context, places, changes. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from archiver.times import Micros
from moirae.topology import Location, Topology

Kind = Literal["context", "place", "change"]
KINDS: tuple[Kind, ...] = ("context", "place", "change")

MAX_FEATURES = 500  # of one kind of one alert; contexts of many rows have thousands of terms
_STEP_WEIGHT = 0.5  # of a place, for each step of the topology that it is away


@dataclass(frozen=True)
class AlertFeatures:
    """An alert as grouping sees it. `start`: event time of its first event.

    `series`: which alerts are of one rule and key. `features`: by kind, features with a weight of
    at most 1.
    """

    id: UUID
    series: str
    start: Micros
    features: Mapping[Kind, Mapping[str, float]] = field(default_factory=dict)


def make_features(
    terms: Iterable[str], key: Location, topology: Topology, steps: int, changes: Iterable[str]
) -> dict[Kind, Mapping[str, float]]:
    """The features of an alert. `key`: its place. `changes`: those that came before it.

    A value of the key that the relation topology knows stands for its node: up to some `steps`
    away, nodes count half for each step.
    """
    weights: dict[str, float] = {}
    for name, value in sorted(key.items()):
        if value not in topology.neighbours:
            weights[f"{name}={value}"] = 1.0
    for node, distance in topology.distances(key.values(), steps).items():
        weights[node] = _STEP_WEIGHT**distance
    features: dict[Kind, Mapping[str, float]] = {
        "context": dict.fromkeys(sorted(set(terms))[:MAX_FEATURES], 1.0),
        "place": dict(sorted(weights.items())[:MAX_FEATURES]),
        "change": dict.fromkeys(sorted(set(changes))[:MAX_FEATURES], 1.0),
    }
    return {kind: weights_of_kind for kind, weights_of_kind in features.items() if weights_of_kind}
