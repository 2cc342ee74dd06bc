"""A seeded simulator of a shared research testbed: nodes, experiments, failures with hidden causes.

The symptom of a failure (in the streams ``node`` and ``ping``, or silence) shows its kind. Its
cause shows in ``process``: in the processes on the host from half an hour before the failure until
its end; and in ``started``, as the start of an experiment.

Times inside this module are integer milliseconds since the epoch; spans are in milliseconds;
percentages are 0 to 100; arrays hold one element per row unless stated otherwise. Two testbeds of
equal arguments are equal.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, get_args

import numpy as np

from moirae.demo.causes import FailureKind
from moirae.demo.failures import describe_failures, draw_live_failures, draw_past_failures
from moirae.demo.running_processes import ProcessTable, draw_processes
from moirae.demo.sampling import (
    DAY,
    EPOCH,
    MINUTE,
    SECOND,
    Bools,
    Floats,
    Ints,
    format_times,
    from_millis,
    sample_times,
    to_millis,
)

StreamName = Literal["node", "process", "ping", "started"]
STREAMS: tuple[StreamName, ...] = get_args(StreamName)
StreamRow = dict[str, str | float]
Columns = dict[str, Iterable[str | float]]

_HISTORY_PERIODS: Mapping[StreamName, int] = {
    "node": 5 * MINUTE,
    "process": 15 * MINUTE,
    "ping": 5 * MINUTE,
}
_LIVE_PERIODS: Mapping[StreamName, int] = {
    "node": SECOND,
    "process": 5 * SECOND,
    "ping": 2 * SECOND,
}
_SITES = (
    "athens",
    "bergen",
    "cork",
    "delft",
    "evora",
    "faro",
    "ghent",
    "haifa",
    "izmir",
    "jena",
    "kyoto",
    "lund",
)
_CORES = (4, 8, 16)  # by size of the machine
_MEMORY_GB = (8, 16, 32)  # by size of the machine
_MIN_HISTORY = timedelta(days=1)
_MIN_LIVE = timedelta(seconds=30)
_MIN_NODES = 20


@dataclass(frozen=True)
class Node:
    """One machine of the testbed, a row of the relation ``hosts``."""

    host: str
    site: str
    cores: int
    memory_gb: int


class Testbed:
    """The whole testbed over ``[history_start, live_start)`` and ``[live_start, live_end)``.

    `nodes` are its machines, `failures` all failures of both phases in order of their start.
    """

    __test__ = False  # not a test: pytest goes by the name

    def __init__(
        self,
        seed: int,
        history_start: datetime,
        live_start: datetime,
        live_end: datetime,
        nodes: int = 40,
    ) -> None:
        """Raises `ValueError` for less than a day of history, 30 s of live phase or 20 nodes."""
        _check_arguments(live_start - history_start, live_end - live_start, nodes)
        self._seed = seed
        self._start = -(-to_millis(history_start) // SECOND) * SECOND  # the next full second
        self._live_start = to_millis(live_start)
        self._end = (live_end - EPOCH) // timedelta(milliseconds=1)
        self.nodes = _draw_nodes(self._rng("nodes"), nodes)
        self._hosts = [node.host for node in self.nodes]
        past = draw_past_failures(self._rng("failures"), (self._start, self._live_start), nodes)
        self._live_outages = draw_live_failures(
            self._rng("live failures"), past, (self._live_start, self._end), nodes
        )
        live_causes = {outage.cause.name for outage in self._live_outages}
        self.repeats_causes = len(live_causes) < len(self._live_outages)
        """Whether causes of the live phase occur in it again."""
        self._outages = past + self._live_outages
        self.failures = describe_failures(
            self._rng("notes"), self._outages, self._hosts, self._live_start
        )
        processes = draw_processes(
            self._rng("running"), (self._start, self._end), self._outages, nodes
        )
        self._processes = ProcessTable(processes)
        self._baselines = _HostBaselines.draw(self._rng("levels"), self.nodes)
        self._live_rows: dict[StreamName, tuple[Ints, list[StreamRow]]] = {}

    def history(self, stream: StreamName) -> Iterator[tuple[date, list[StreamRow]]]:
        """The rows of history, one batch per UTC day in order, sorted by ts within the day."""
        period = _HISTORY_PERIODS.get(stream, DAY)
        offsets = self._draw_offsets(stream, period // SECOND) * SECOND
        start, end = self._start, self._live_start
        for midnight in range(start - start % DAY, end, DAY):
            window = (max(midnight, start), min(midnight + DAY, end))
            if stream == "started":
                yield from_millis(midnight).date(), self._list_starts(window, "s")[1]
                continue
            host, ts = sample_times(window, start, period, offsets)
            host, ts = self._drop_silent(host, ts)
            rng = self._rng(f"history {stream} {midnight}")
            _, rows = self._draw_rows(stream, host, ts, rng, unit="s")
            yield from_millis(midnight).date(), rows

    def live(self, stream: StreamName, since: datetime, until: datetime) -> list[StreamRow]:
        """The rows of the live phase with since <= ts < until, sorted by ts.

        Consecutive intervals give the same rows as one that spans them.
        """
        if stream not in self._live_rows:
            self._live_rows[stream] = self._draw_live_rows(stream)
        ts, rows = self._live_rows[stream]
        first, last = np.searchsorted(ts, [to_millis(since), to_millis(until)])
        return rows[first:last]

    def _list_starts(
        self, window: tuple[int, int], unit: Literal["s", "ms"]
    ) -> tuple[Ints, list[StreamRow]]:
        """The times and rows of the stream `started`."""
        start, end = window
        starts = [entry for entry in self._processes.starts if start <= entry.starts < end]
        ts = np.array([entry.starts for entry in starts], dtype=np.int64)
        rows: list[StreamRow] = [
            {
                "ts": text,
                "host": self._hosts[entry.host],
                "experiment": entry.experiment,
                "user": entry.user,
            }
            for text, entry in zip(format_times(ts, unit), starts, strict=True)
        ]
        return ts, rows

    def _draw_live_rows(self, stream: StreamName) -> tuple[Ints, list[StreamRow]]:
        if stream == "started":
            return self._list_starts((self._live_start, self._end), "ms")
        period = _LIVE_PERIODS[stream]
        offsets = self._draw_offsets(stream, period)
        window = (self._live_start, self._end)
        host, ts = sample_times(window, self._live_start, period, offsets)
        if stream == "process":
            host, ts = self._add_final_samples(host, ts)
        host, ts = self._drop_silent(host, ts)
        return self._draw_rows(stream, host, ts, self._rng(f"live {stream}"), unit="ms")

    def _add_final_samples(self, host: Ints, ts: Ints) -> tuple[Ints, Ints]:
        """One more sample of each failing host, 1 to 3 s before it fails; no sample twice."""
        rng = self._rng("last looks")
        extra_hosts = []
        extra_times = []
        for outage in self._live_outages:
            extra_hosts.append(outage.host)
            extra_times.append(outage.starts - int(rng.integers(SECOND, 3 * SECOND)))
        samples = np.column_stack((np.append(ts, extra_times), np.append(host, extra_hosts)))
        distinct = np.unique(samples, axis=0)  # sorted by ts, then host
        return distinct[:, 1], distinct[:, 0]

    def _draw_rows(
        self,
        stream: StreamName,
        host: Ints,
        ts: Ints,
        rng: np.random.Generator,
        unit: Literal["s", "ms"],
    ) -> tuple[Ints, list[StreamRow]]:
        """The times of the rows, and the rows. `unit`: precision of the column `ts`."""
        if stream == "process":
            host, ts, trace_numbers = self._processes.find_running(host, ts)
            values: Columns = {**self._processes.columns(trace_numbers)}
            values["cpu"] = self._draw_process_cpu(host, ts, rng)
        elif stream == "node":
            values = self._draw_node_columns(host, ts, rng)
        else:
            values = self._draw_ping_columns(host, ts, rng)
        columns: Columns = {
            "ts": format_times(ts, unit),
            "host": [self._hosts[index] for index in host],
            **values,
        }
        rows = []
        for row in zip(*columns.values(), strict=True):
            rows.append(dict(zip(columns, row, strict=True)))
        return ts, rows

    def _draw_node_columns(self, host: Ints, ts: Ints, rng: np.random.Generator) -> Columns:
        size = len(ts)
        baselines = self._baselines
        wave = np.sin(2 * np.pi * (ts / DAY + baselines.wave[host]))

        overload = self._failure_mask("overload", host, ts)
        cpu = np.clip(baselines.cpu[host] + 9 * wave + rng.normal(0, 5, size), 1, 84)
        cpu[overload] = rng.uniform(94, 99.9, int(overload.sum()))

        shortage = self._failure_mask("memory", host, ts)
        memory = np.clip(baselines.memory[host] + 5 * wave + rng.normal(0, 2.5, size), 4, 87)
        memory[shortage] = rng.uniform(95.5, 99.9, int(shortage.sum()))

        noise = rng.uniform(0.7, 1.3, size)
        load = baselines.cores[host] * cpu / 100 * noise * np.where(overload, 3, 1)
        return {
            "cpu": _round_values(cpu, 1),
            "load": _round_values(load, 2),
            "memory": _round_values(memory, 1),
        }

    def _draw_ping_columns(self, host: Ints, ts: Ints, rng: np.random.Generator) -> Columns:
        size = len(ts)
        network = self._failure_mask("network", host, ts)
        noise = rng.lognormal(0, 0.12, size)
        rtt = self._baselines.rtt[host] * noise * np.where(network, 2.5, 1)
        is_lossless = rng.random(size) < 0.9
        lost = np.where(is_lossless, 0, rng.uniform(0.5, 4.5, size))
        lost[network] = rng.uniform(45, 95, int(network.sum()))
        return {"rtt_ms": _round_values(rtt, 1), "lost": _round_values(lost, 1)}

    def _draw_process_cpu(self, host: Ints, ts: Ints, rng: np.random.Generator) -> list[float]:
        """Percent of the host. On an overloaded host all are high: none stands out as the cause."""
        factor = np.where(self._failure_mask("overload", host, ts), 3, 1)
        cpu = rng.gamma(1.2, 2.0, len(ts)) * factor
        return _round_values(np.minimum(cpu, 60), 1)

    def _drop_silent(self, host: Ints, ts: Ints) -> tuple[Ints, Ints]:
        """The samples without those of silent hosts."""
        is_silent = self._failure_mask("silent", host, ts)
        return host[~is_silent], ts[~is_silent]

    def _failure_mask(self, kind: FailureKind, host: Ints, ts: Ints) -> Bools:
        """Which samples fall into a failure of that kind; `ts` is in ascending order."""
        mask = np.zeros(len(ts), dtype=np.bool_)
        for outage in self._outages:
            if outage.cause.kind == kind:
                first, last = np.searchsorted(ts, [outage.starts, outage.ends])
                mask[first:last] |= host[first:last] == outage.host
        return mask

    def _draw_offsets(self, stream: StreamName, period: int) -> Ints:
        """The offset of each host within the period, in its unit; they are evenly spaced."""
        count = len(self.nodes)
        return self._rng(f"offsets {stream}").permutation(count) * period // count

    def _rng(self, purpose: str) -> np.random.Generator:
        """A generator for each purpose: streams and days may be requested in any order."""
        return np.random.default_rng([self._seed, zlib.crc32(purpose.encode())])


@dataclass(frozen=True)
class _HostBaselines:
    """Normal values of each host; all arrays have shape (hosts,)."""

    cores: Ints
    cpu: Floats  # mean, percent
    memory: Floats  # mean, percent
    rtt: Floats  # median, ms
    wave: Floats  # phase of the daily wave, in days

    @classmethod
    def draw(cls, rng: np.random.Generator, nodes: tuple[Node, ...]) -> _HostBaselines:
        count = len(nodes)
        rtt_by_site = {site: float(rng.uniform(8, 180)) for site in _SITES}
        site_rtt = np.array([rtt_by_site[node.site] for node in nodes])
        return cls(
            cores=np.array([node.cores for node in nodes]),
            cpu=rng.uniform(18, 52, count),
            memory=rng.uniform(30, 66, count),
            rtt=site_rtt * rng.uniform(0.95, 1.05, count),
            wave=rng.uniform(-0.15, 0.15, count),
        )


def _check_arguments(history: timedelta, live: timedelta, nodes: int) -> None:
    if history < _MIN_HISTORY:
        raise ValueError("the testbed needs at least one day of history")
    if live < _MIN_LIVE:
        raise ValueError("the live phase needs at least 30 seconds")
    if nodes < _MIN_NODES:
        raise ValueError("the testbed needs at least 20 nodes")


def _draw_nodes(rng: np.random.Generator, count: int) -> tuple[Node, ...]:
    """Machines named after their sites, such as ``delft-2``, sorted by name."""
    nodes = []
    for index in range(count):
        site = _SITES[index % len(_SITES)]
        host = f"{site}-{index // len(_SITES) + 1}"
        size = int(rng.integers(3))
        nodes.append(Node(host, site, _CORES[size], _MEMORY_GB[size]))
    return tuple(sorted(nodes, key=lambda node: node.host))


def _round_values(values: Floats, digits: int) -> list[float]:
    rounded: list[float] = np.round(values, digits).tolist()
    return rounded
