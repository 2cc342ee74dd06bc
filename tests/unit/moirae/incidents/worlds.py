"""Synthetic worlds of overlapping failures, with known truth."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from uuid import UUID

from moirae.incidents import AlertFeatures, make_features
from moirae.topology import make_topology

SECOND = 1_000_000  # microseconds
SERVICES = 12
TOPOLOGY = make_topology(
    edge
    for number in range(SERVICES)
    for edge in ((f"s{number}", f"db{number}"), (f"s{number}", f"host{number % 4}"))
)


@dataclass(frozen=True)
class World:
    """Alerts in the order of time, and the failure of each."""

    alerts: Sequence[AlertFeatures]
    failures: Mapping[UUID, int]


def make_world(seed: int, failures: int = 30, *, overlapping: float = 0.5) -> World:
    """Failures of services, each with alerts of it and its neighbours within three minutes.

    A share of them begins while another one goes on elsewhere. Half of the alerts have a context,
    whose terms tell of the failure and of what goes on anyway. An alert of another service, which
    is of no failure, comes with each third one.
    """
    rng = random.Random(seed)
    alerts: list[AlertFeatures] = []
    truth: dict[UUID, int] = {}
    start = 0
    going_on: set[int] = set()
    for failure in range(failures):
        is_overlapping = rng.random() < overlapping
        start += rng.randrange(20, 60) * SECOND if is_overlapping else 3600 * SECOND
        if not is_overlapping or len(going_on) == SERVICES:
            going_on = set()
        service = rng.choice([n for n in range(SERVICES) if n not in going_on])
        going_on.add(service)
        change = [f"deploy s{service} v{failure}"] if rng.random() < 0.3 else []
        for number in range(rng.randrange(3, 12)):
            ts = start + number * rng.randrange(1, 15) * SECOND
            place = rng.choice([f"s{service}", f"db{service}"])
            terms = [f"noise={rng.randrange(20)}" for _ in range(4)]
            terms += [f"slow=s{service}", f"error={service}-{rng.randrange(3)}", "site=eu"]
            alert = UUID(int=rng.getrandbits(128))
            features = make_features(
                terms if rng.random() < 0.5 else (), {"service": place}, TOPOLOGY, 1, change
            )
            alerts.append(AlertFeatures(alert, f"rule{number % 3}/{place}", ts, features))
            truth[alert] = failure
        if failure % 3 == 0:
            alert = UUID(int=rng.getrandbits(128))
            key = {"service": f"batch{rng.randrange(5)}"}
            noise = [f"noise={rng.randrange(20)}" for _ in range(4)]
            features = make_features([*noise, "site=eu"], key, TOPOLOGY, 1, ())
            alerts.append(AlertFeatures(alert, "batch", start + 5 * SECOND, features))
            truth[alert] = -failure - 1
    return World(sorted(alerts, key=lambda alert: (alert.start, alert.id)), truth)


def score_pairs(groups: Mapping[UUID, object], truth: Mapping[UUID, object]) -> tuple[float, float]:
    """Precision and recall of the pairs of alerts that are in one group."""
    together = Counter((groups[alert], truth[alert]) for alert in truth)
    hits = sum(comb(count, 2) for count in together.values())
    proposed = sum(comb(count, 2) for count in Counter(groups[alert] for alert in truth).values())
    real = sum(comb(count, 2) for count in Counter(truth.values()).values())
    return hits / proposed if proposed else 1.0, hits / real if real else 1.0
