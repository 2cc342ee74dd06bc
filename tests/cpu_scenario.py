"""A generated day of CPU use in the form of the PlanetLab files, and what two rules find in it, in plain Python.

Nothing of Moirae is imported here: the expected events and alerts are independent of the code under test.
"""

import csv
import gzip
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SAMPLE_INTERVAL = timedelta(minutes=5)

Key = tuple[str, ...]
Times = dict[Key, list[datetime]]
"""Times of events in order, by key."""


@dataclass(frozen=True)
class Sample:
    """CPU use of one slice (the processes of one experiment) on one host, in percent."""

    ts: datetime
    host: str
    slice: str
    cpu_pct: int


@dataclass(frozen=True)
class ExpectedAlert:
    """An alert that fires, with the time of its first event and its end."""

    key: Key
    starts: datetime
    ends: datetime


def samples(seed: int, hosts: int = 10, slices: int = 6) -> list[Sample]:
    """One day in order of time. Slices are busy for spells of one sample to an hour; some samples are missing."""
    rng = random.Random(seed)
    names = [f"slice_{number}" for number in range(slices * 2)]
    generated = []
    for host in range(hosts):
        for name in rng.sample(names, slices):
            generated += _slice_samples(rng, f"node{host:02}.example", name)
    return sorted(generated, key=lambda sample: (sample.ts, sample.host, sample.slice))


def _slice_samples(rng: random.Random, host: str, name: str) -> list[Sample]:
    generated = []
    usual = rng.randrange(25)
    busy_for = 0  # samples
    for number in range(DAY // SAMPLE_INTERVAL):
        if busy_for == 0 and rng.random() < 0.01:
            busy_for = rng.choice([1, 2, 3, 4, 6, 12])
        cpu_pct = rng.randint(79, 100) if busy_for else rng.randint(0, usual + 10)
        busy_for = max(busy_for - 1, 0)
        if rng.random() > 0.05:
            generated.append(Sample(START + number * SAMPLE_INTERVAL, host, name, cpu_pct))
    return generated


def write_csv(path: Path, day: Iterable[Sample]) -> None:
    """The samples as a PlanetLab file: ts, host, slice, cpu_pct."""
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "host", "slice", "cpu_pct"])
        for sample in day:
            writer.writerow(
                [f"{sample.ts:%Y-%m-%dT%H:%M:%SZ}", sample.host, sample.slice, sample.cpu_pct]
            )


def slice_busy(day: Iterable[Sample], threshold: int = 80) -> Times:
    """`SELECT host, slice, ts FROM cpu WHERE cpu_pct >= 80`: times by (host, slice)."""
    times: Times = defaultdict(list)
    for sample in day:
        if sample.cpu_pct >= threshold:
            times[sample.host, sample.slice].append(sample.ts)
    return dict(times)


def node_busy(day: Iterable[Sample], threshold: int = 400) -> Times:
    """Hosts whose CPU use, summed over windows of 15 minutes, exceeds a threshold within an hour: times by (host,).

    A row of the inner window has the time of its end, by which it falls into an hour; the event has the end of that.
    """
    sums: dict[tuple[str, datetime], int] = defaultdict(int)
    for sample in day:
        sums[sample.host, _window_end(sample.ts, timedelta(minutes=15))] += sample.cpu_pct
    highest: dict[tuple[str, datetime], int] = defaultdict(int)
    for (host, ts), cpu in sums.items():
        hour = host, _window_end(ts, timedelta(hours=1))
        highest[hour] = max(highest[hour], cpu)
    times: Times = defaultdict(list)
    for (host, ts), cpu in sorted(highest.items()):
        if cpu > threshold:
            times[(host,)].append(ts)
    return dict(times)


def _window_end(ts: datetime, size: timedelta) -> datetime:
    """The end of the window [start, start + size) that contains a time."""
    return ts - (ts - START) % size + size


def alerts(
    events: Mapping[Key, list[datetime]], keep_firing_for: timedelta, wait: timedelta
) -> list[ExpectedAlert]:
    """The alerts of events that fire, by start: events of a key at most `keep_firing_for` apart are one alert, which
    fires if they have gone on for `wait` (the rule's `for`)."""
    expected_alerts = []
    for key, times in events.items():
        first = last = times[0]
        for ts in [*times[1:], datetime.max.replace(tzinfo=UTC)]:
            if ts - last > keep_firing_for:
                if last - first >= wait:
                    expected_alerts.append(ExpectedAlert(key, first, last + keep_firing_for))
                first = ts
            last = ts
    return sorted(expected_alerts, key=lambda alert: (alert.starts, alert.key))


def slices_beside(
    day: Iterable[Sample], alert: ExpectedAlert, within: timedelta, above: int
) -> dict[str, int]:
    """The context of an alert of `slice_busy`: how often each other slice of the host was above some percent within a
    span before the first event, as terms."""
    host, own = alert.key
    terms: dict[str, int] = defaultdict(int)
    for sample in day:
        is_near = alert.starts - within <= sample.ts <= alert.starts
        if sample.host == host and sample.slice != own and is_near and sample.cpu_pct > above:
            terms[f"slice={sample.slice}"] += 1
    return dict(terms)
