"""Ranks the changes near an alert by how often such a change came before alerts. No I/O."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from archiver.times import Micros
from moirae.recent_changes.kinds import kind_of
from moirae.recent_changes.statistics import (
    HourCounts,
    KeyHistory,
    Times,
    compare_hours,
    count_preceded,
)
from moirae.topology import Location, Surrounding, Topology, surround


@dataclass(frozen=True)
class Change:
    """A row of a stream of changes. `ts`: event time."""

    stream: str
    ts: Micros
    what: str
    place: Location

    @property
    def kind(self) -> tuple[str, str]:
        """Its stream, and its text without versions and numbers."""
        return self.stream, kind_of(self.what)


@dataclass(frozen=True)
class PastAlert:
    """An earlier alert of the rule. `end`: event time, of an open alert that of the question."""

    key: Location
    start: Micros
    end: Micros


@dataclass(frozen=True)
class HistoryStart:
    """From when on the changes of a stream are known, and from when on those and the alerts.

    `reason`: why hours are not compared; empty if they are.
    """

    changes: Micros
    hours: Micros
    reason: str = ""


@dataclass(frozen=True)
class Question:
    """An alert whose changes are ranked.

    `similar`: key and event time of the most similar past alerts. `past`: earlier alerts of the
    rule that fired. `starts` and `steps` (see `DeclaredChanges`): by stream.
    """

    key: Location
    ts: Micros
    within: Micros
    starts: Mapping[str, HistoryStart]
    similar: Sequence[tuple[Location, Micros]]
    past: Sequence[PastAlert]
    topology: Topology
    steps: Mapping[str, int]


@dataclass(frozen=True)
class RankedChange:
    """A change near an alert.

    `steps`: how far it is away in the topology. `similar`: number of the most similar past alerts
    before which changes are known, and `similar_with_change`, how many of them such a change came
    before. `hours`: a comparison with other hours, or why there is none.
    """

    change: Change
    steps: int
    similar: int
    similar_with_change: int
    hours: HourCounts | str


def find_near(changes: Sequence[Change], question: Question) -> list[tuple[Change, int]]:
    """The changes within the span before the alert and near its key, with their steps."""
    near = []
    surroundings: dict[int, Surrounding] = {}
    for change in changes:
        if not question.ts - question.within < change.ts <= question.ts:
            continue
        steps = question.steps[change.stream]
        if steps not in surroundings:
            surroundings[steps] = surround(question.key, question.topology, steps)
        distance = surroundings[steps].distance(change.place)
        if distance is not None:
            near.append((change, distance))
    return near


def rank_changes(changes: Sequence[Change], question: Question) -> list[RankedChange]:
    """The changes near an alert, first those after which alerts were most frequent.

    `changes`: of all streams and places, since `question.starts`. Of those of one kind in one
    place, the newest is listed.
    """
    newest = {}
    for change, distance in sorted(find_near(changes, question), key=lambda near: near[0].ts):
        newest[change.kind, tuple(sorted(change.place.items()))] = change, distance
    of_kind = defaultdict(list)
    kinds = {change.kind for change, _ in newest.values()}
    for change in changes:
        if change.kind in kinds:
            of_kind[change.kind].append(change)
    facts = {kind: _compare(of_kind[kind], question) for kind in kinds}
    ranked = []
    for change, distance in newest.values():
        ranked.append(RankedChange(change, distance, *facts[change.kind]))
    return sorted(ranked, key=_rank)


def _rank(entry: RankedChange) -> tuple[float, float, int, Micros]:
    """The bound of the ratio that is nearer to 1, and 1 if the interval contains it, decides."""
    bound = 1.0
    if isinstance(entry.hours, HourCounts):
        bound = min(max(1.0, entry.hours.low), entry.hours.high)
    share = entry.similar_with_change / max(1, entry.similar)
    return -bound, -share, entry.steps, -entry.change.ts


def _compare(changes: Sequence[Change], question: Question) -> tuple[int, int, HourCounts | str]:
    """Similar past alerts, those with such a change, and hours. `changes`: all of one kind."""
    index = _LocationIndex(changes)
    steps = question.steps[changes[0].stream]
    start = question.starts[changes[0].stream]
    if start.reason:
        return 0, 0, start.reason

    def near(key: Location) -> Times:
        return index.times_near(surround(key, question.topology, steps))

    similar = [(key, ts) for key, ts in question.similar if ts >= start.changes]
    similar_with_change = count_preceded(
        [ts for _, ts in similar], [near(key) for key, _ in similar], question.within
    )
    by_key: dict[tuple[tuple[str, str], ...], list[PastAlert]] = defaultdict(list)
    by_key[tuple(sorted(question.key.items()))] = []
    for alert in question.past:
        by_key[tuple(sorted(alert.key.items()))].append(alert)
    histories = []
    for key, alerts in by_key.items():
        starts = np.array(sorted(alert.start for alert in alerts), dtype=np.int64)
        ends = np.array([alert.end for alert in alerts], dtype=np.int64)
        histories.append(KeyHistory(starts, ends, near(dict(key))))
    hours = compare_hours(histories, start.hours, question.ts, question.within)
    return len(similar), similar_with_change, hours


class _LocationIndex:
    """The times of changes by place, found by the values of places."""

    def __init__(self, changes: Sequence[Change]) -> None:
        times: dict[tuple[tuple[str, str], ...], list[Micros]] = defaultdict(list)
        for change in changes:
            times[tuple(sorted(change.place.items()))].append(change.ts)
        self._times = [(dict(location), entries) for location, entries in times.items()]
        self._by_value: dict[str, set[int]] = defaultdict(set)
        self._everywhere = {
            number for number, (location, _) in enumerate(self._times) if not location
        }
        for number, (location, _) in enumerate(self._times):
            for value in location.values():
                self._by_value[value].add(number)

    def times_near(self, surrounding: Surrounding) -> Times:
        """The sorted times of the changes that are near."""
        candidates = set(self._everywhere)
        for value in {*surrounding.key.values(), *surrounding.distances}:
            candidates |= self._by_value.get(value, set())
        times: list[Micros] = []
        for number in candidates:
            location, entries = self._times[number]
            if surrounding.distance(location) is not None:
                times += entries
        return np.array(sorted(times), dtype=np.int64)
