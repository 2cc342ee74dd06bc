"""AC-4: pairwise precision and recall of proposed incidents, on real alerts with known failures.

`nezha_pod` and PetShop come from shared/data. Further sets are read from the folder that the
environment variable ALERT_SETS names, with a folder for each system: `label.csv`, `metrics.json`
and `traces.json` by fault, and `kg.json`, as in data/fault-alerts of the repository
boerste/rca-llm-reasoning. What is absent is skipped.

Alerts of a pair are apart in truth if they are of different failures. `nezha_pod` also has alerts
outside of all failures: `precision_with_background` counts pairs with them as wrong.
"""

import csv
import gzip
import json
import math
import os
import re
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from moirae.incidents import AlertFeatures, make_features, propose_incidents
from moirae.topology import Topology, make_topology

_DATA = Path(__file__).parents[1].parent / "shared" / "data"
_SECOND = 1_000_000  # microseconds
_SILENCE = 600  # seconds without an alert of a rule and key before another one begins
_CONTEXT = 600  # seconds before an alert whose other alerts are the terms of its context
_WINDOW = 6 * 3600  # seconds within which alerts may share something
_LOUD = 3.0  # standard deviations from which a metric of PetShop raises an alert
_GOAL = 0.9  # precision, at a recall of 0.6


@dataclass(frozen=True)
class _KnownAlert:
    """`failure` None: outside of all failures. `ts`: seconds. `places`: the first is its own."""

    ts: float
    failure: str | None
    rule: str
    places: Sequence[str]
    terms: frozenset[str]


@dataclass(frozen=True)
class _AlertSet:
    name: str
    alerts: Sequence[_KnownAlert]
    topology: Topology


def run() -> list[BenchmarkResult]:
    """One result for each set."""
    return [_measure(alert_set) for alert_set in _load_sets()]


def _load_sets() -> Iterator[_AlertSet]:
    if (_DATA / "scenarios" / "nezha_pod").is_dir():
        yield _load_nezha()
        yield _load_petshop()
    else:
        print("AC-4: shared/data is not on this machine", file=sys.stderr)
    folder = os.environ.get("ALERT_SETS")
    if folder is None:
        print("AC-4: ALERT_SETS names no folder of further sets", file=sys.stderr)
        return
    for path in sorted(Path(folder).iterdir()):
        if (path / "metrics.json").is_file():
            yield _load_faults(path)


def _load_nezha() -> _AlertSet:
    folder = _DATA / "scenarios" / "nezha_pod"
    with gzip.open(folder / "labels.csv.gz", "rt") as file:
        failures = {row["event_id"]: row["fault_id"] or None for row in csv.DictReader(file)}
    alerts = []
    with gzip.open(folder / "alerts.jsonl.gz", "rt") as file:
        for row in map(json.loads, file):
            attributes = dict(fact.split("=", 1) for fact in row["facts"])
            terms = frozenset(fact for fact in row["facts"] if fact.startswith("anom="))
            alerts.append(
                _KnownAlert(
                    datetime.fromisoformat(row["ts"]).timestamp(),
                    failures[row["event_id"]],
                    row["event_type"],
                    (row["host"], attributes["service"]),
                    terms,
                )
            )
    return _AlertSet("nezha_pod", sorted(alerts, key=lambda alert: alert.ts), make_topology([]))


_Observation = tuple[float, str, str, tuple[str, ...]]
"""Seconds, failure, rule, places."""


def _load_faults(path: Path) -> _AlertSet:
    """Metrics and calls that another detector marked, by injected fault."""
    observations: list[_Observation] = []
    for failure, rows in json.loads((path / "metrics.json").read_text()).items():
        for ts, component, node, metric, direction in rows:
            locations = tuple(filter(None, (component, node)))
            observations.append((int(ts) / 1000, failure, f"{metric}:{direction}", locations))
    for failure, rows in json.loads((path / "traces.json").read_text()).items():
        for ts, source, target, operation, kind in rows:
            rule = f"{re.sub(r'[0-9.]+:[0-9]+', '', operation)}:{kind}"
            observations.append((int(ts) / 1000, failure, rule, (source, target)))
    graph = json.loads((path / "kg.json").read_text())
    edges = [
        (edge["source"], edge["target"]) for edge in graph.get("edges", graph.get("links", []))
    ]
    return _AlertSet(path.name, _raise_alerts(observations), make_topology(edges))


def _load_petshop() -> _AlertSet:
    """Metrics of components far from their values without an issue, by issue."""
    with gzip.open(_DATA / "petshop" / "metrics.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    normal: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if not row["incident_id"] and row["value"]:
            normal[_series(row)].append(float(row["value"]))
    observations: list[_Observation] = []
    for row in rows:
        values = normal.get(_series(row), [])
        if not row["incident_id"] or not row["value"] or len(values) < 10:
            continue
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        distance = float(row["value"]) - mean
        if abs(distance) > _LOUD * max(deviation, 0.05 * abs(mean), 1e-9):
            ts = datetime.fromisoformat(row["ts"]).timestamp()
            direction = "up" if distance > 0 else "down"
            rule = f"{row['metric']}:{row['statistic']}:{direction}"
            observations.append((ts, row["incident_id"], rule, (row["host"],)))
    edges = []
    for path in sorted((_DATA / "petshop").glob("graph_*.csv.gz")):
        with gzip.open(path, "rt") as file:
            edges += [(row[0], row[1]) for row in list(csv.reader(file))[1:]]
    return _AlertSet("petshop", _raise_alerts(observations), make_topology(edges))


def _series(row: dict[str, Any]) -> tuple[str, ...]:
    return row["scenario"], row["host"], row["metric"], row["statistic"]


def _raise_alerts(observations: list[_Observation]) -> list[_KnownAlert]:
    """One alert of a rule and its places until they have been silent; its context: others before it."""
    alerts: list[_KnownAlert] = []
    latest: dict[tuple[str, tuple[str, ...]], float] = {}
    recent: deque[tuple[float, str]] = deque()
    for ts, failure, rule, locations in sorted(observations):
        recent.append((ts, f"{locations[0]}:{rule}"))
        while recent[0][0] < ts - _CONTEXT:
            recent.popleft()
        last = latest.get((rule, locations), -math.inf)
        latest[rule, locations] = ts
        if ts - last >= _SILENCE:
            terms = frozenset(term for _, term in recent)
            alerts.append(_KnownAlert(ts, failure, rule, locations, terms))
    return alerts


def _measure(alert_set: _AlertSet) -> BenchmarkResult:
    alerts = alert_set.alerts
    features = [
        AlertFeatures(
            UUID(int=number),
            f"{alert.rule} {alert.places}",
            int(alert.ts * _SECOND),
            make_features(
                alert.terms,
                {f"place{index}": node for index, node in enumerate(alert.places)},
                alert_set.topology,
                1,
                (),
            ),
        )
        for number, alert in enumerate(alerts)
    ]
    placed = {entry.alert.int: entry.incident for entry in propose_incidents(features)}
    groups: list[Hashable] = [placed[number] for number in range(len(alerts))]
    precision, recall = _score(alerts, groups, with_background=False)
    by_time: list[Hashable] = [int(alert.ts // 600) for alert in alerts]
    by_place = _chain(alerts, lambda alert: alert.places[0])
    details = {
        "recall": recall,
        "precision_with_background": _score(alerts, groups, with_background=True)[0],
        "nothing_shared": _share_without_overlap(alerts, features),
        "alerts": len(alerts),
        "failures": len({alert.failure for alert in alerts} - {None}),
    }
    for name, baseline in (("same_10_min", by_time), ("same_place_10_min", by_place)):
        details[f"{name}_precision"], details[f"{name}_recall"] = _score(
            alerts, baseline, with_background=False
        )
    print(f"AC-4 {alert_set.name}: precision {precision:.3f}, {details}", file=sys.stderr)
    return make_result(
        "AC-4",
        f"pairs in proposed incidents that are of one failure, {alert_set.name}",
        [precision],
        target=f"≥ {_GOAL}",
        details={name: round(value, 3) for name, value in details.items()},
        noise=[time_noise_kernel()],
    )


def _chain(alerts: Sequence[_KnownAlert], key: Callable[[_KnownAlert], Hashable]) -> list[Hashable]:
    """Groups of equal keys, each alert at most ten minutes after the one before it."""
    latest: dict[Hashable, tuple[float, int]] = {}
    groups: list[Hashable] = []
    for number, alert in enumerate(alerts):
        ts, group = latest.get(key(alert), (-math.inf, number))
        group = group if alert.ts - ts <= 600 else number
        latest[key(alert)] = alert.ts, group
        groups.append(group)
    return groups


def _score(
    alerts: Sequence[_KnownAlert], groups: Sequence[Hashable], *, with_background: bool
) -> tuple[float, float]:
    """Precision and recall over all pairs."""
    labelled = []
    for number, (alert, group) in enumerate(zip(alerts, groups, strict=True)):
        if alert.failure is not None:
            labelled.append((group, alert.failure))
        elif with_background:
            labelled.append((group, str(number)))
    hits = _count_pairs(Counter(labelled))
    proposed = _count_pairs(Counter(group for group, _ in labelled))
    real = _count_pairs(Counter(failure for _, failure in labelled))
    return hits / proposed if proposed else 1.0, hits / real if real else 1.0


def _count_pairs(counts: Counter[Any]) -> int:
    return sum(math.comb(count, 2) for count in counts.values())


def _share_without_overlap(
    alerts: Sequence[_KnownAlert], features: Sequence[AlertFeatures]
) -> float:
    """Of the pairs of alerts of one failure, those that share no term and no place within 6 h."""
    members: dict[str, list[int]] = defaultdict(list)
    for number, alert in enumerate(alerts):
        if alert.failure is not None:
            members[alert.failure].append(number)
    pairs = apart = 0
    for numbers in members.values():
        for index, first in enumerate(numbers):
            for second in numbers[index + 1 :]:
                pairs += 1
                is_near = abs(alerts[first].ts - alerts[second].ts) <= _WINDOW
                apart += not is_near or not any(
                    features[first].features[kind].keys() & names.keys()
                    for kind, names in features[second].features.items()
                    if kind in features[first].features
                )
    return apart / pairs if pairs else 0.0
