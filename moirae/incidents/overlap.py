"""How much alerts overlap with incidents: cosines of weighted features, newer alerts first. No I/O.

A feature that few of the last alerts have weighs more: log((n + 1) / count); these are the alerts of
some hours, but not fewer than `MIN_COUNTED`: on a quiet day, what all hosts have is not rare. The overlap of an
alert with an incident is the mean of its cosines with the alerts of the incident, each of which
counts half for each half-life that it is older than the newest one. It is computed from sums by
feature, so that a burst of thousands of alerts costs time in proportion to their features.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from archiver.times import Micros
from moirae.incidents.alert_features import KINDS, AlertFeatures, Kind

HISTORY = 6 * 3_600_000_000  # microseconds of alerts by which features are weighted
MIN_COUNTED = 50  # alerts by which features are weighted at least
_MAX_GROWTH = 2.0**200
"""Weights of newer alerts grow, and older ones stay: above it, all of an incident are made smaller."""

Vector = Mapping[str, float]


@dataclass(eq=False)
class _Sums:
    """The sums of an incident. `last`: event time of its newest alert; `base`: at which weights are 1."""

    incident: UUID
    base: Micros
    last: Micros
    weight: float = 0.0
    features: dict[Kind, dict[str, float]] = field(default_factory=dict)


class Overlaps:
    """The features of incidents, for comparison with new alerts. `half_life`: microseconds."""

    def __init__(self, half_life: Micros) -> None:
        self._half_life = half_life
        self._counts: dict[Kind, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._recent: deque[AlertFeatures] = deque()
        self._incidents: dict[UUID, _Sums] = {}
        self._sums_by_feature: dict[tuple[Kind, str], set[_Sums]] = defaultdict(set)

    def count(self, alert: AlertFeatures) -> None:
        """Count the features of an alert, so that they weigh less; forget those of old ones."""
        self._recent.append(alert)
        for kind, features in alert.features.items():
            self._counts[kind].update(features.keys())
        while len(self._recent) > MIN_COUNTED and self._recent[0].start < alert.start - HISTORY:
            oldest = self._recent.popleft()
            for kind, features in oldest.features.items():
                counts = self._counts[kind]
                counts.subtract(features.keys())
                for feature in features:
                    if not counts[feature]:
                        del counts[feature]

    def weigh(self, alert: AlertFeatures) -> dict[Kind, Vector]:
        """The features of a counted alert by kind, as vectors of length 1."""
        return {kind: self._weigh(kind, features) for kind, features in alert.features.items()}

    def _weigh(self, kind: Kind, features: Vector) -> Vector:
        counts, total = self._counts[kind], len(self._recent)
        weights = {
            feature: weight * math.log((total + 1) / max(1, counts[feature]))
            for feature, weight in features.items()
        }
        length = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {feature: weight / length for feature, weight in weights.items()}

    def compare(
        self, vectors: Mapping[Kind, Vector], start: Micros, within: Micros
    ) -> dict[UUID, dict[Kind, float]]:
        """The overlaps of an alert with the incidents that have a feature of it, by kind.

        Only of those whose newest alert is at most `within` before or after it.
        """
        near: dict[_Sums, dict[Kind, float]] = {}
        # By feature, so that incidents with one of a hundred features cost a hundredth.
        for kind, vector in vectors.items():
            for feature, weight in vector.items():
                for sums in self._sums_by_feature.get((kind, feature), ()):
                    if abs(start - sums.last) > within:
                        continue
                    totals = near.get(sums)
                    if totals is None:
                        totals = near[sums] = dict.fromkeys(vectors, 0.0)
                    totals[kind] += weight * sums.features[kind][feature]
        return {
            sums.incident: {kind: total / sums.weight for kind, total in totals.items()}
            for sums, totals in near.items()
        }

    def shared(self, vectors: Mapping[Kind, Vector], incident: UUID, kind: Kind) -> list[str]:
        """The features of a kind that an alert shares with an incident, the weightiest first."""
        features = self._incidents[incident].features.get(kind, {})
        vector = vectors.get(kind, {})
        common = [feature for feature in vector if feature in features]
        return sorted(common, key=lambda feature: (-vector[feature] * features[feature], feature))

    def last(self, incident: UUID) -> Micros | None:
        """Event time of the newest alert of an incident; None: it has been forgotten."""
        sums = self._incidents.get(incident)
        return None if sums is None else sums.last

    def add(self, incident: UUID, start: Micros, vectors: Mapping[Kind, Vector]) -> None:
        """Add an alert to an incident, which may be new."""
        sums = self._incidents.setdefault(incident, _Sums(incident, start, start))
        growth = self._grow(sums, start)
        sums.last = max(sums.last, start)
        sums.weight += growth
        for kind, vector in vectors.items():
            features = sums.features.setdefault(kind, {})
            for feature, weight in vector.items():
                features[feature] = features.get(feature, 0.0) + weight * growth
                self._sums_by_feature[kind, feature].add(sums)

    def _grow(self, sums: _Sums, start: Micros) -> float:
        """The weight of an alert at a time, relative to those that are in the sums."""
        exponent = max(-500.0, (start - sums.base) / self._half_life)
        growth = math.exp2(min(exponent, 500.0))
        if growth <= _MAX_GROWTH:
            return growth
        sums.base = start
        sums.weight /= growth
        for features in sums.features.values():
            for feature in features:
                features[feature] /= growth
        return 1.0

    def forget(self, before: Micros) -> None:
        """Forget the incidents whose newest alert is older."""
        old = [incident for incident, sums in self._incidents.items() if sums.last < before]
        for incident in old:
            forgotten = self._incidents.pop(incident)
            for kind, features in forgotten.features.items():
                for feature in features:
                    incidents = self._sums_by_feature[kind, feature]
                    incidents.discard(forgotten)
                    if not incidents:
                        del self._sums_by_feature[kind, feature]
