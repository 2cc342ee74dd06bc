"""Synthetic worlds of known truth: causes, the alerts that they raise in bursts, and their tags.

A cause has symptoms (messages) and services. An episode is one occurrence of a cause: a burst of
alerts on some hosts of one of its services, within the gap. The causes may shift in the middle, one
may appear late, and some tags may be wrong.
"""

from dataclasses import dataclass

import numpy as np

from recall.relevance.rankers import AlertContext

HOUR = 3_600_000_000  # microseconds
GAP = 6 * HOUR

_FREQUENT_CAUSES = 12
_RARE_CAUSES = 40
_MESSAGES_PER_CAUSE = 7  # in all; each cause shows some of them
_NOISE_MESSAGES = 60
_SERVICES = 10
_HOSTS = 8  # of each service
_SYMPTOMS = 4
_SHOWN_SHARE = 0.7  # of the symptoms, in one alert
_MAX_NOISE = 5  # messages of an alert that say nothing; of alerts with many terms:
_MAX_RICH_NOISE = 50
_MEAN_INTERVAL = 8 * HOUR  # between two episodes
_MAX_EPISODE = 5 * HOUR
_LATE_SHARE = 0.3  # of the episodes from then on are of the late cause


@dataclass(frozen=True)
class World:
    """What happens. `resolutions`: the number of alerts, each of which gets a tag.

    `burst`: the largest number of alerts of one episode. `shift`: half of the causes are replaced
    in the middle, and the others get other symptoms. `late`: a cause appears after two thirds.
    `wrong_share`: of the tags, with one draw for each episode or, `wrong_events`, each alert.
    `rare`: there are many causes, each as likely as the others, and most terms say nothing.
    """

    name: str
    resolutions: int
    burst: int = 50
    shift: bool = False
    late: bool = False
    wrong_share: float = 0.0
    wrong_events: bool = False
    rare: bool = False


@dataclass(frozen=True)
class DrawnWorld:
    """The alerts in time order and, by event ID, their causes, tags and numbers of episodes.

    `shifted_from`: the first episode after the causes have shifted; None: they do not.
    """

    alerts: list[AlertContext]
    causes: dict[str, str]
    tags: dict[str, str]
    episodes: dict[str, int]
    shifted_from: int | None = None


@dataclass(frozen=True)
class _Cause:
    name: str
    symptoms: list[int]
    services: list[int]


def draw_world(world: World, seed: int) -> DrawnWorld:
    """The alerts of a world. The same seed draws the same alerts."""
    rng = np.random.default_rng(seed)
    sizes = _draw_sizes(rng, world)
    count = _RARE_CAUSES if world.rare else _FREQUENT_CAUSES
    phases = [_draw_causes(rng, range(count), count)] * 2
    if world.shift:
        # Half of the causes are others.
        phases[1] = _draw_causes(rng, range(count // 2, count + count // 2), count)
    late_cause = _draw_causes(rng, range(2 * count, 2 * count + 1), count)[0]
    shifted_from = None
    alerts: list[tuple[AlertContext, str, str, int]] = []
    ts = 0
    for episode, size in enumerate(sizes):
        ts += int(rng.exponential(_MEAN_INTERVAL)) + HOUR // 60
        done = len(alerts) / world.resolutions
        if world.shift and done >= 0.5 and shifted_from is None:
            shifted_from = episode
        causes = phases[int(done >= 0.5)]
        shares = np.ones(count) if world.rare else 1 / np.arange(1, count + 1)
        cause = causes[int(rng.choice(len(causes), p=shares / shares.sum()))]
        if world.late and done >= 2 / 3 and rng.random() < _LATE_SHARE:
            cause = late_cause
        names = [other.name for other in causes if other is not cause]
        alerts += _draw_episode(rng, world, cause, names, episode, size, ts)
    alerts.sort(key=lambda row: (row[0].ts, row[0].event_id))
    drawn = DrawnWorld([], {}, {}, {}, shifted_from)
    for alert, cause_name, tag, episode in alerts:
        drawn.alerts.append(alert)
        drawn.causes[alert.event_id] = cause_name
        drawn.tags[alert.event_id] = tag
        drawn.episodes[alert.event_id] = episode
    return drawn


def _draw_sizes(rng: np.random.Generator, world: World) -> list[int]:
    """The numbers of alerts of the episodes: small ones are as likely as large ones, by logarithm."""
    sizes: list[int] = []
    missing = world.resolutions
    while missing > 0:
        size = int(np.exp(rng.uniform(0, np.log(world.burst + 0.999))))
        sizes.append(min(size, missing))
        missing -= sizes[-1]
    return sizes


def _draw_causes(rng: np.random.Generator, numbers: range, count: int) -> list[_Cause]:
    causes = []
    for number in numbers:
        symptoms = rng.choice(count * _MESSAGES_PER_CAUSE, _SYMPTOMS, replace=False).tolist()
        services = rng.choice(_SERVICES, 2, replace=False).tolist()
        causes.append(_Cause(f"cause {number}", symptoms, services))
    return causes


def _draw_episode(
    rng: np.random.Generator,
    world: World,
    cause: _Cause,
    other_names: list[str],
    episode: int,
    size: int,
    ts: int,
) -> list[tuple[AlertContext, str, str, int]]:
    service = int(rng.choice(cause.services))
    if world.rare or rng.random() < 0.2:
        service = int(rng.integers(_SERVICES))
    times = np.sort(rng.integers(0, _MAX_EPISODE, size))
    times -= times[0]
    tag = _draw_tag(rng, world.wrong_share, cause.name, other_names)
    max_noise = _MAX_RICH_NOISE if world.rare else _MAX_NOISE
    rows = []
    for number, offset in enumerate(times.tolist()):
        host = f"s{service}h{int(rng.integers(_HOSTS))}"
        terms = {f"service=s{service}": 1, f"host={host}": 1, f"deploy=d{episode}": 1}
        for symptom in cause.symptoms:
            if rng.random() < _SHOWN_SHARE:
                terms[f"msg=m{symptom}"] = int(rng.integers(1, 5))
        for _ in range(int(rng.integers(max_noise + 1))):
            terms[f"msg=n{int(rng.zipf(1.5)) % _NOISE_MESSAGES}"] = int(rng.integers(1, 9))
        terms[f"hour={(ts + offset) // (6 * HOUR) % 4}"] = 1
        if world.wrong_events:
            tag = _draw_tag(rng, world.wrong_share, cause.name, other_names)
        event_id = f"e{episode:06d}-{number:03d}"
        alert = AlertContext(event_id, "degraded", ts + offset, terms, location=host)
        rows.append((alert, cause.name, tag, episode))
    return rows


def _draw_tag(
    rng: np.random.Generator, wrong_share: float, name: str, other_names: list[str]
) -> str:
    if rng.random() < wrong_share:
        return str(rng.choice(other_names))
    return name
