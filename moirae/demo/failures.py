"""Failures of the simulated testbed, drawn from a seed: causes, hosts, times and resolutions.

Times are integer milliseconds since the epoch unless they are `datetime`; hosts are indexes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from moirae.demo.causes import CAUSES, CAUSES_BY_NAME, FAILURE_KINDS, FailureCause, FailureKind
from moirae.demo.sampling import DAY, HOUR, MINUTE, SECOND, draw_times, from_millis

_FAILURES_PER_DAY = (11.5, 15.0)  # from, to
_MIN_FAILURES_PER_CAUSE = 4  # in history, so that every live failure has a similar past failure
_LIVE_FAILURES: Mapping[FailureKind, int] = {"overload": 3, "memory": 3, "network": 2, "silent": 2}
_LIVE_ROUND = 5 * MINUTE  # all live causes occur once in a round; a longer live phase repeats them
_HOSTS_PER_ROUND = 20  # each live failure has a host of its own
_MIN_HEALTHY_TIME = 3 * HOUR  # from the end of a failure of a host to its next one
_NOTE_SUFFIXES = (
    "",
    "",
    " Owner informed.",
    " Watched it for ten minutes, stays normal.",
    " Nothing else to do.",
)


@dataclass(frozen=True)
class SimulatedFailure:
    """One failure of one host over [starts, ends), in UTC, as an operator's log has it."""

    id: str
    kind: FailureKind
    cause: str  # name of the cause
    host: str
    starts: datetime
    ends: datetime
    resolution: str  # empty in the live phase
    resolved_by: str  # empty in the live phase

    @property
    def tag(self) -> str:
        """The short name of the fix, such as ``cap-crawler-threads``."""
        return CAUSES_BY_NAME[self.cause].tag


class Outage(NamedTuple):
    """A failure as the simulator draws it, over [starts, ends)."""

    cause: FailureCause
    host: int
    starts: int
    ends: int


def draw_past_failures(
    rng: np.random.Generator, span: tuple[int, int], host_count: int
) -> list[Outage]:
    """The failures of history in order of their start, each 15 (silence: 25) to 60 minutes long."""
    start, end = span
    days = (end - start) / DAY
    min_count = len(CAUSES) * _MIN_FAILURES_PER_CAUSE
    count = max(min_count, round(days * rng.uniform(*_FAILURES_PER_DAY)))
    times = draw_times(rng, (start + HOUR, end - 2 * HOUR), count) // SECOND * SECOND
    causes = _draw_past_causes(rng, count)
    outages: list[Outage] = []
    for starts, cause in zip(times.tolist(), causes, strict=True):
        min_length = 15 * MINUTE
        if cause.kind == "silent":
            min_length = 25 * MINUTE
        length = int(rng.integers(min_length, HOUR)) // SECOND * SECOND
        host = _draw_host(rng, outages, cause, starts, host_count)
        outages.append(Outage(cause, host, starts, starts + length))
    return outages


def draw_live_failures(
    rng: np.random.Generator, past: list[Outage], span: tuple[int, int], host_count: int
) -> list[Outage]:
    """The failures of the live phase, on different hosts, in order of their start.

    Each is at least 12 s (silence: 20 s) long; many last until the end of their round. Each round
    has the same causes in the same order, so that what an operator notes about a failure is of use
    for a later one.
    """
    causes = _draw_live_causes(rng, past)
    outages: list[Outage] = []
    for start, end in _divide_into_rounds(span, host_count):
        times = draw_times(rng, (start + 8 * SECOND, end - 20 * SECOND), len(causes))
        for starts, cause in zip(times.tolist(), causes, strict=True):
            min_length = 12 * SECOND
            if cause.kind == "silent":
                min_length = 20 * SECOND
            ends = int(rng.integers(starts + min_length, end + 20 * SECOND))
            host = _draw_host(rng, past + outages, cause, starts, host_count)
            outages.append(Outage(cause, host, starts, min(ends, end)))
    return outages


def _divide_into_rounds(span: tuple[int, int], host_count: int) -> list[tuple[int, int]]:
    """Equal parts of the live phase; one if the phase is short or there are few hosts."""
    start, end = span
    count = max(1, min(round((end - start) / _LIVE_ROUND), host_count // _HOSTS_PER_ROUND))
    bounds = [start + (end - start) * number // count for number in range(count + 1)]
    return list(pairwise(bounds))


def describe_failures(
    rng: np.random.Generator, outages: Sequence[Outage], hosts: Sequence[str], live_start: int
) -> tuple[SimulatedFailure, ...]:
    """The outages as an operator's log has them: those before `live_start` are resolved."""
    failures = []
    for number, (cause, host, starts, ends) in enumerate(outages, start=1):
        resolution = ""
        resolved_by = ""
        if starts < live_start:
            note = cause.notes[rng.integers(len(cause.notes))]
            resolution = note + _NOTE_SUFFIXES[rng.integers(len(_NOTE_SUFFIXES))]
            resolved_by = _draw_resolver(rng, from_millis(ends).hour)
        failure = SimulatedFailure(
            id=f"F{number:04}",
            kind=cause.kind,
            cause=cause.name,
            host=hosts[host],
            starts=from_millis(starts),
            ends=from_millis(ends),
            resolution=resolution,
            resolved_by=resolved_by,
        )
        failures.append(failure)
    return tuple(failures)


def _draw_past_causes(rng: np.random.Generator, count: int) -> list[FailureCause]:
    """The causes of history: about equally many failures of each."""
    causes = []
    for cause in CAUSES:
        causes += [cause] * _MIN_FAILURES_PER_CAUSE
    for index in rng.integers(len(CAUSES), size=count - len(causes)):
        causes.append(CAUSES[index])
    return _shuffle_causes(rng, causes, {})


def _draw_live_causes(rng: np.random.Generator, past: Sequence[Outage]) -> list[FailureCause]:
    """The causes of a round of the live phase, all different."""
    causes_by_kind: dict[FailureKind, list[FailureCause]] = defaultdict(list)
    for cause in CAUSES:
        causes_by_kind[cause.kind].append(cause)
    chosen: list[FailureCause] = []
    for kind in FAILURE_KINDS:
        candidates = causes_by_kind[kind]
        for index in rng.permutation(len(candidates))[: _LIVE_FAILURES[kind]]:
            chosen.append(candidates[index])
    last_by_kind = {outage.cause.kind: outage.cause for outage in past}
    return _shuffle_causes(rng, chosen, last_by_kind)


def _shuffle_causes(
    rng: np.random.Generator,
    causes: Sequence[FailureCause],
    last_by_kind: Mapping[FailureKind, FailureCause],
) -> list[FailureCause]:
    """The causes in an order in which one rarely follows itself within its kind.

    `last_by_kind`: the causes of the failures before these.
    """
    shuffled = [causes[index] for index in rng.permutation(len(causes))]
    previous = dict(last_by_kind)
    for i in range(len(shuffled)):
        if shuffled[i] is previous.get(shuffled[i].kind):
            j = int(rng.integers(i, len(shuffled)))
            shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
        previous[shuffled[i].kind] = shuffled[i]
    return shuffled


def _draw_host(
    rng: np.random.Generator,
    before: Sequence[Outage],
    cause: FailureCause,
    starts: int,
    host_count: int,
) -> int:
    """A healthy host, rarely one whose last failure of this kind had the same cause."""
    unhealthy = set()
    last_cause_by_host = {}
    for outage in before:
        if outage.ends > starts - _MIN_HEALTHY_TIME:
            unhealthy.add(outage.host)
        if outage.cause.kind == cause.kind:
            last_cause_by_host[outage.host] = outage.cause
    healthy = [host for host in range(host_count) if host not in unhealthy]
    first = healthy[rng.integers(len(healthy))]
    second = healthy[rng.integers(len(healthy))]
    if last_cause_by_host.get(first) is cause:
        return second
    return first


def _draw_resolver(rng: np.random.Generator, hour: int) -> str:
    """Who resolves a failure that ends at this hour (UTC)."""
    shift = "ops-night"
    if 7 <= hour < 20:
        shift = "ops-day"
    return str(rng.choice([shift, shift, shift, "site-admin", "on-call"]))
