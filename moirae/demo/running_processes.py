"""Processes on the hosts of the simulated testbed: ordinary experiments, and traces of failures.

Times are integer milliseconds since the epoch; hosts are indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from moirae.demo.causes import CAUSES, FailureCause, ProcessTrace
from moirae.demo.failures import Outage
from moirae.demo.sampling import DAY, HOUR, MINUTE, Ints


class RunningProcess(NamedTuple):
    """A process on a host over [starts, ends)."""

    host: int
    trace: ProcessTrace
    starts: int
    ends: int


class ExperimentStart(NamedTuple):
    """A user starts an experiment on a host."""

    starts: int
    host: int
    experiment: str
    user: str


class _ExperimentProfile(NamedTuple):
    """How an experiment runs. `host_share` and `run_length`: from, to."""

    host_share: tuple[float, float]  # fraction of the hosts
    run_length: tuple[int, int]  # milliseconds
    max_processes: int  # on one host


_BROAD_PROFILE = _ExperimentProfile((0.5, 0.9), (30 * HOUR, 90 * HOUR), 2)
_SMALL_PROFILE = _ExperimentProfile((0.02, 0.12), (6 * HOUR, 24 * HOUR), 1)
_BROAD_EXPERIMENTS = (
    "flow-trace",
    "dht-lookup",
    "overlay-net",
    "edge-cache",
    "dns-watch",
    "route-views",
    "time-study",
    "path-quality",
)
_SMALL_EXPERIMENTS = (
    "swarm-test",
    "storage-grid",
    "anycast-lab",
    "content-poll",
    "mesh-voice",
    "mobility-replay",
)
_OWNERS = ("alder", "aspen", "beech", "cypress", "fir", "oak", "sycamore", "yew")
_PROCESSES = (
    "python3",
    "java",
    "bash",
    "wget",
    "tar",
    "redis",
    "tcpdump",
    "rsync",
    "iperf",
    "gzip",
    "collector",
    "prober",
)
_SYSTEM_USER = "root"
_SYSTEM_EXPERIMENT = "system"
_SYSTEM_PROCESSES = ("sshd", "cron", "ntpd", "node-monitor", "slice-manager")
_TRACE_LEAD = (30 * MINUTE, 50 * MINUTE)  # from the first trace of a cause to the symptom
# For each term of a signature but the first: how probable a failure without it is.
_TERM_ABSENCE_PROBABILITY = 0.25


def draw_processes(
    rng: np.random.Generator, span: tuple[int, int], outages: Sequence[Outage], host_count: int
) -> Iterator[RunningProcess]:
    """All processes of the testbed over the span, those of failures included."""
    start, end = span
    for host in range(host_count):
        for name in _SYSTEM_PROCESSES:
            trace = ProcessTrace(name, _SYSTEM_EXPERIMENT, _SYSTEM_USER)
            yield RunningProcess(host, trace, start, end)
    owners = rng.permutation(_OWNERS).tolist()
    for experiment, owner in zip(_BROAD_EXPERIMENTS, owners, strict=True):
        yield from _draw_experiment(rng, experiment, [owner], _BROAD_PROFILE, span, host_count)
    for experiment in _SMALL_EXPERIMENTS:
        yield from _draw_experiment(rng, experiment, owners, _SMALL_PROFILE, span, host_count)
    yield from _draw_decoys(rng, span, host_count)
    for outage in outages:
        starts = outage.starts - int(rng.integers(*_TRACE_LEAD))
        for trace in _draw_failure_traces(rng, outage.cause):
            yield RunningProcess(outage.host, trace, starts, outage.ends)


class ProcessTable:
    """All processes as arrays, to look up those of many samples at once."""

    def __init__(self, processes: Iterable[RunningProcess]) -> None:
        rows = list(processes)
        self.starts = sorted(
            {
                ExperimentStart(row.starts, row.host, row.trace.experiment, row.trace.user)
                for row in rows
                if row.trace.experiment != _SYSTEM_EXPERIMENT
            }
        )
        """Those of experiments, by time."""
        self._traces = sorted(
            {row.trace for row in rows},
            key=lambda trace: (trace.experiment, trace.user, trace.process),
        )
        numbers = {trace: number for number, trace in enumerate(self._traces)}
        self._host = np.array([row.host for row in rows], dtype=np.int64)
        self._trace_number = np.array([numbers[row.trace] for row in rows], dtype=np.int64)
        self._starts = np.array([row.starts for row in rows], dtype=np.int64)
        self._ends = np.array([row.ends for row in rows], dtype=np.int64)

    def find_running(self, host: Ints, ts: Ints) -> tuple[Ints, Ints, Ints]:
        """The distinct traces at every sample as (host, ts, trace number), by ts, then host.

        The samples (host, ts) are ordered by ts, then host.
        """
        order = np.lexsort((ts, host))
        span = int(ts.max()) + 2  # host * span + ts sorts samples by host, then ts
        keys = host[order] * span + ts[order]
        first = np.searchsorted(keys, self._host * span + np.minimum(self._starts, span - 1))
        last = np.searchsorted(keys, self._host * span + np.minimum(self._ends, span - 1))
        counts = last - first  # samples of each process
        offsets = np.repeat(first - (np.cumsum(counts) - counts), counts)
        samples = order[np.arange(counts.sum()) + offsets]
        trace_numbers = np.repeat(self._trace_number, counts)
        pairs = np.unique(samples * len(self._traces) + trace_numbers)
        samples, trace_numbers = np.divmod(pairs, len(self._traces))
        return host[samples], ts[samples], trace_numbers

    def columns(self, trace_numbers: Ints) -> dict[str, list[str]]:
        """The traces as columns of the stream `process`."""
        users, experiments, processes = [], [], []
        for number in trace_numbers:
            trace = self._traces[number]
            users.append(trace.user)
            experiments.append(trace.experiment)
            processes.append(trace.process)
        return {"user": users, "experiment": experiments, "process": processes}


def _draw_experiment(
    rng: np.random.Generator,
    experiment: str,
    users: list[str],
    profile: _ExperimentProfile,
    span: tuple[int, int],
    host_count: int,
) -> Iterator[RunningProcess]:
    """Its runs one after the other, each by one of the users on a random choice of hosts."""
    start, end = span
    names = rng.choice(_PROCESSES, size=profile.max_processes, replace=False).tolist()
    run_start = start - int(rng.integers(DAY))
    while run_start < end:
        run_end = run_start + int(rng.integers(*profile.run_length))
        user = users[rng.integers(len(users))]
        is_used = rng.random(host_count) < rng.uniform(*profile.host_share)
        for host in np.flatnonzero(is_used).tolist():
            for name in names[: rng.integers(1, profile.max_processes + 1)]:
                trace = ProcessTrace(name, experiment, user)
                yield RunningProcess(host, trace, run_start, run_end)
        run_start = run_end + int(rng.integers(HOUR, 8 * HOUR))


def _draw_decoys(
    rng: np.random.Generator, span: tuple[int, int], host_count: int
) -> Iterator[RunningProcess]:
    """Single terms of the causes' signatures without failure, about one per host and day."""
    start, end = span
    for _ in range(round(host_count * (end - start) / DAY)):
        cause = CAUSES[rng.integers(len(CAUSES))]
        term = cause.signature[rng.integers(len(cause.signature))]
        trace = next(trace for trace in cause.traces if term in trace.terms())
        starts = int(rng.integers(start, end))
        ends = starts + int(rng.integers(HOUR, 4 * HOUR))
        host = int(rng.integers(host_count))
        decoy = trace.merge(_draw_ordinary_trace(rng), {term})
        yield RunningProcess(host, decoy, starts, ends)


def _draw_failure_traces(rng: np.random.Generator, cause: FailureCause) -> list[ProcessTrace]:
    """The traces of one failure; at most one term of the signature, never the first, is missing."""
    terms = set(cause.signature)
    optional_terms = cause.signature[1:]
    if rng.random() < _TERM_ABSENCE_PROBABILITY * len(optional_terms):
        terms.remove(optional_terms[rng.integers(len(optional_terms))])
    ordinary = _draw_ordinary_trace(rng)
    return [trace.merge(ordinary, terms) for trace in cause.traces]


def _draw_ordinary_trace(rng: np.random.Generator) -> ProcessTrace:
    """A process as it may run anywhere: the attributes that a cause does not fix."""
    process = _PROCESSES[rng.integers(len(_PROCESSES))]
    experiment = _BROAD_EXPERIMENTS[rng.integers(len(_BROAD_EXPERIMENTS))]
    user = _OWNERS[rng.integers(len(_OWNERS))]
    return ProcessTrace(process, experiment, user)
