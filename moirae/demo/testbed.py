"""A seeded simulator of a shared research testbed: nodes, experiments, failures with hidden causes.

The symptom of a failure (in the streams ``node`` and ``ping``, or silence) tells its kind. Its
cause shows only in ``process``: in what ran on the host from half an hour before the failure until
its end.

Times inside this module are integer milliseconds since the epoch; spans are in milliseconds;
percentages are 0 to 100; arrays hold one element per row unless said otherwise. Two testbeds of
equal arguments are equal.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from moirae.demo import failures as causes
from moirae.demo.failures import (
    CAUSES,
    CAUSES_BY_NAME,
    FAILURE_KINDS,
    FailureCause,
    FailureKind,
    ProcessTrace,
)

StreamName = Literal["node", "process", "ping"]
STREAMS: tuple[StreamName, ...] = get_args(StreamName)
StreamRow = dict[str, str | float]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HISTORY_PERIOD: dict[StreamName, int] = {
    "node": 5 * MINUTE,
    "process": 15 * MINUTE,
    "ping": 5 * MINUTE,
}
LIVE_PERIOD: dict[StreamName, int] = {"node": SECOND, "process": 5 * SECOND, "ping": 2 * SECOND}

SITES = (
    *("athens", "bergen", "cork", "delft", "evora", "faro"),
    *("ghent", "haifa", "izmir", "jena", "kyoto", "lund"),
)
FAILURES_PER_DAY = (11.5, 15.0)
MIN_FAILURES_PER_CAUSE = 4  # in history, so that every live failure has a past
LIVE_FAILURES: dict[FailureKind, int] = {"overload": 3, "memory": 3, "network": 2, "silent": 2}
MIN_HEALTHY_TIME = 3 * HOUR  # a host is healthy for so long before it fails again
TRACE_LEAD = (30 * MINUTE, 50 * MINUTE)  # from the first trace of a cause to the symptom
TERM_ABSENCE_PROBABILITY = (
    0.25  # probability for each term of a signature but the first to be missing from an instance
)
NOTE_SUFFIXES = (
    "",
    "",
    " Owner informed.",
    " Watched it for ten minutes, stays normal.",
    " Nothing else to do.",
)


@dataclass(frozen=True)
class Node:
    """One machine of the testbed, a row of the relation ``hosts``."""

    host: str
    site: str
    cores: int
    memory_gb: int


@dataclass(frozen=True)
class SimulatedFailure:
    """One failure of one host over [starts, ends), UTC; one of the live phase has no resolution
    yet.
    """

    id: str
    kind: FailureKind
    cause: str
    host: str
    starts: datetime
    ends: datetime
    resolution: str
    resolved_by: str

    @property
    def tag(self) -> str:
        """The remedy of its cause in short, e.g. ``cap-crawler-threads``."""
        return CAUSES_BY_NAME[self.cause].tag


class HistoryFile(NamedTuple):
    """A complete file of one stream and day, as `write_history` leaves it."""

    stream: StreamName
    day: date
    path: Path
    rows: int


class _ExperimentProfile(NamedTuple):
    """How an experiment runs: part of the hosts and length of one run (both from, to), processes at
    most.
    """

    share: tuple[float, float]
    length: tuple[int, int]
    processes: int


BROAD_PROFILE = _ExperimentProfile((0.5, 0.9), (30 * HOUR, 90 * HOUR), 2)
SMALL_PROFILE = _ExperimentProfile((0.02, 0.12), (6 * HOUR, 24 * HOUR), 1)


class _RunningProcess(NamedTuple):
    """A process on a host (its index) over [starts, ends)."""

    host: int
    trace: ProcessTrace
    starts: int
    ends: int


class _Outage(NamedTuple):
    """A failure as the simulator sees it: host by index, times in milliseconds."""

    cause: FailureCause
    host: int
    starts: int
    ends: int


class Testbed:
    """The whole testbed over ``[history_start, live_start)`` and ``[live_start, live_end)``.

    `nodes` are its machines, `failures` all failures of both phases in order of their start.
    """

    __test__ = False  # not a test, whatever pytest makes of the name

    def __init__(
        self,
        seed: int,
        history_start: datetime,
        live_start: datetime,
        live_end: datetime,
        nodes: int = 40,
    ) -> None:
        """Draw everything that later rows depend on; history at least a day, live 30 s, 20 nodes."""
        _check_arguments(live_start - history_start, live_end - live_start, nodes)
        self._seed = seed
        first_second = -(-_to_millis(history_start) // SECOND) * SECOND
        last_ms = (live_end - EPOCH) // timedelta(milliseconds=1)
        self._phase_bounds = (first_second, _to_millis(live_start), last_ms)
        self.nodes = _draw_nodes(self._rng("nodes"), nodes)
        past = _draw_past_failures(self._rng("failures"), self._phase_bounds[:2], nodes)
        self._outages = (
            *past,
            *_draw_live_failures(self._rng("live failures"), past, self._phase_bounds[1:], nodes),
        )
        self.failures = self._describe_failures(self._rng("notes"))
        self._processes = _ProcessTable(self._draw_processes(self._rng("running")))
        self._baselines = _HostBaselines.draw(self._rng("levels"), self.nodes)
        self._hosts = [node.host for node in self.nodes]
        self._live_rows: dict[StreamName, tuple[Ints, list[StreamRow]]] = {}

    def history(self, stream: StreamName) -> Iterator[tuple[date, list[StreamRow]]]:
        """The rows of history, one batch per UTC day in order, sorted by ts within the day."""
        start, end, _ = self._phase_bounds
        for midnight in range(start - start % DAY, end, DAY):
            window = (max(midnight, start), min(midnight + DAY, end))
            rng = self._rng(f"history {stream} {midnight}")
            period = HISTORY_PERIOD[stream]
            samples = _sample_times(
                window, start, period, self._offsets(stream, period // SECOND) * SECOND
            )
            _, rows = self._draw_rows(stream, *self._drop_silent(*samples), rng, unit="s")
            yield _from_millis(midnight).date(), rows

    def live(self, stream: StreamName, since: datetime, until: datetime) -> list[StreamRow]:
        """The rows of the live phase with since <= ts < until, sorted by ts, however the phase is
        cut up.
        """
        if stream not in self._live_rows:
            self._live_rows[stream] = self._draw_live_rows(stream)
        ts, rows = self._live_rows[stream]
        first, last = np.searchsorted(ts, [_to_millis(since), _to_millis(until)])
        return rows[first:last]

    def _draw_live_rows(self, stream: StreamName) -> tuple[Ints, list[StreamRow]]:
        _, start, end = self._phase_bounds
        period = LIVE_PERIOD[stream]
        host, ts = _sample_times((start, end), start, period, self._offsets(stream, period))
        if stream == "process":
            host, ts = self._add_final_samples(host, ts)
        return self._draw_rows(
            stream, *self._drop_silent(host, ts), self._rng(f"live {stream}"), unit="ms"
        )

    def _add_final_samples(self, host: Ints, ts: Ints) -> tuple[Ints, Ints]:
        """One more process sample of each failing host, 1 to 3 s before it fails."""
        rng = self._rng("last looks")
        extra = [
            (o.host, o.starts - int(rng.integers(SECOND, 3 * SECOND))) for o in self._live_outages()
        ]
        both = np.array(
            [(ts, host) for host, ts in {*zip(host.tolist(), ts.tolist(), strict=True), *extra}]
        )
        ordered = both[np.lexsort((both[:, 1], both[:, 0]))]
        return ordered[:, 1], ordered[:, 0]

    def _draw_rows(
        self,
        stream: StreamName,
        host: Ints,
        ts: Ints,
        rng: np.random.Generator,
        unit: Literal["s", "ms"],
    ) -> tuple[Ints, list[StreamRow]]:
        """The samples as rows, with the time of each row."""
        if stream == "process":
            host, ts, what = self._processes.find_running(host, ts)
            columns: dict[str, Iterable[str | float]] = self._processes.columns(what)
            columns["cpu"] = self._draw_process_cpu(host, ts, rng)
        elif stream == "node":
            columns = self._draw_node_columns(host, ts, rng)
        else:
            columns = self._draw_ping_columns(host, ts, rng)
        columns = {"ts": _format_times(ts, unit), "host": [self._hosts[i] for i in host], **columns}
        return ts, [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]

    def _draw_node_columns(
        self, host: Ints, ts: Ints, rng: np.random.Generator
    ) -> dict[str, Iterable[str | float]]:
        size, levels = len(ts), self._baselines
        overload = self._failure_mask("overload", host, ts)
        wave = np.sin(2 * np.pi * (ts / DAY + levels.wave[host]))
        cpu = np.clip(levels.cpu[host] + 9 * wave + rng.normal(0, 5, size), 1, 84)
        cpu[overload] = rng.uniform(94, 99.9, int(overload.sum()))
        memory = np.clip(levels.memory[host] + 5 * wave + rng.normal(0, 2.5, size), 4, 87)
        shortage = self._failure_mask("memory", host, ts)
        memory[shortage] = rng.uniform(95.5, 99.9, int(shortage.sum()))
        load = (
            levels.cores[host] * cpu / 100 * rng.uniform(0.7, 1.3, size) * np.where(overload, 3, 1)
        )
        return {
            "cpu": _round_values(cpu, 1),
            "load": _round_values(load, 2),
            "memory": _round_values(memory, 1),
        }

    def _draw_ping_columns(
        self, host: Ints, ts: Ints, rng: np.random.Generator
    ) -> dict[str, Iterable[str | float]]:
        size = len(ts)
        network = self._failure_mask("network", host, ts)
        rtt = self._baselines.rtt[host] * rng.lognormal(0, 0.12, size) * np.where(network, 2.5, 1)
        lost = np.where(rng.random(size) < 0.9, 0, rng.uniform(0.5, 4.5, size))
        lost[network] = rng.uniform(45, 95, int(network.sum()))
        return {"rtt_ms": _round_values(rtt, 1), "lost": _round_values(lost, 1)}

    def _draw_process_cpu(self, host: Ints, ts: Ints, rng: np.random.Generator) -> list[float]:
        """Percent of the host; on an overloaded one everybody's is high, so that it names no
        culprit.
        """
        busy = np.where(self._failure_mask("overload", host, ts), 3, 1)
        return _round_values(np.minimum(rng.gamma(1.2, 2.0, len(ts)) * busy, 60), 1)

    def _drop_silent(self, host: Ints, ts: Ints) -> tuple[Ints, Ints]:
        heard = ~self._failure_mask("silent", host, ts)
        return host[heard], ts[heard]

    def _failure_mask(self, kind: FailureKind, host: Ints, ts: Ints) -> Bools:
        """Which samples fall into a failure of that kind; `ts` is in order."""
        struck = np.zeros(len(ts), dtype=np.bool_)
        for outage in self._outages:
            if outage.cause.kind == kind:
                during = slice(*np.searchsorted(ts, [outage.starts, outage.ends]))
                struck[during] |= host[during] == outage.host
        return struck

    def _live_outages(self) -> list[_Outage]:
        return [outage for outage in self._outages if outage.starts >= self._phase_bounds[1]]

    def _describe_failures(self, rng: np.random.Generator) -> tuple[SimulatedFailure, ...]:
        """The failures as an operator's log would hold them."""
        described = []
        for number, (cause, host, starts, ends) in enumerate(self._outages, 1):
            note = role = ""
            if starts < self._phase_bounds[1]:
                note = (
                    cause.notes[rng.integers(len(cause.notes))]
                    + NOTE_SUFFIXES[rng.integers(len(NOTE_SUFFIXES))]
                )
                role = _draw_resolver(rng, _from_millis(ends).hour)
            times = (_from_millis(starts), _from_millis(ends))
            name = self.nodes[host].host
            described.append(
                SimulatedFailure(f"F{number:04}", cause.kind, cause.name, name, *times, note, role)
            )
        return tuple(described)

    def _draw_processes(self, rng: np.random.Generator) -> Iterator[_RunningProcess]:
        start, _, end = self._phase_bounds
        for host in range(len(self.nodes)):
            for name in causes.SYSTEM_PROCESSES:
                yield _RunningProcess(
                    host,
                    ProcessTrace(name, causes.SYSTEM_EXPERIMENT, causes.SYSTEM_USER),
                    start,
                    end,
                )
        owners = rng.permutation(causes.OWNERS).tolist()
        for experiment, owner in zip(causes.BROAD_EXPERIMENTS, owners, strict=True):
            yield from _draw_experiment(
                rng, experiment, [owner], BROAD_PROFILE, (start, end), len(self.nodes)
            )
        for experiment in causes.SMALL_EXPERIMENTS:
            yield from _draw_experiment(
                rng, experiment, owners, SMALL_PROFILE, (start, end), len(self.nodes)
            )
        yield from _draw_decoys(rng, (start, end), len(self.nodes))
        for outage in self._outages:
            first = outage.starts - int(rng.integers(*TRACE_LEAD))
            for what in _draw_failure_traces(rng, outage.cause):
                yield _RunningProcess(outage.host, what, first, outage.ends)

    def _offsets(self, stream: StreamName, period: int) -> Ints:
        """Shape (hosts,), in the unit of `period`: each host's own place within it, evenly apart."""
        count = len(self.nodes)
        return self._rng(f"offsets {stream}").permutation(count) * period // count

    def _rng(self, purpose: str) -> np.random.Generator:
        """Each purpose has its own numbers, so that streams and days may be asked for in any order."""
        return np.random.default_rng([self._seed, zlib.crc32(purpose.encode())])


@dataclass(frozen=True)
class _HostBaselines:
    """What is normal on each host; all arrays have shape (hosts,)."""

    cores: Ints
    cpu: Floats  # mean, percent
    memory: Floats  # mean, percent
    rtt: Floats  # median, ms
    wave: Floats  # phase of the daily wave, in days

    @classmethod
    def draw(cls, rng: np.random.Generator, nodes: tuple[Node, ...]) -> _HostBaselines:
        count = len(nodes)
        distance = {site: float(rng.uniform(8, 180)) for site in SITES}
        return cls(
            cores=np.array([node.cores for node in nodes]),
            cpu=rng.uniform(18, 52, count),
            memory=rng.uniform(30, 66, count),
            rtt=np.array([distance[node.site] for node in nodes]) * rng.uniform(0.95, 1.05, count),
            wave=rng.uniform(-0.15, 0.15, count),
        )


class _ProcessTable:
    """All running processes as arrays, to be looked up for many samples at once."""

    def __init__(self, processes: Iterable[_RunningProcess]) -> None:
        rows = list(processes)
        self._traces = sorted(
            {row.trace for row in rows}, key=lambda what: (what.experiment, what.user, what.process)
        )
        number = {what: index for index, what in enumerate(self._traces)}
        table = np.array(
            [(r.host, number[r.trace], r.starts, r.ends) for r in rows], dtype=np.int64
        )
        self._host, self._trace_number, self._starts, self._ends = table.T

    def find_running(self, host: Ints, ts: Ints) -> tuple[Ints, Ints, Ints]:
        """Every process at every sample, each once, as (host, ts, process number), by ts, then
        host.
        """
        order = np.lexsort((ts, host))
        span = int(ts.max()) + 2  # a key sorts samples by host, then ts
        keys = host[order] * span + ts[order]
        first = np.searchsorted(keys, self._host * span + np.minimum(self._starts, span - 1))
        last = np.searchsorted(keys, self._host * span + np.minimum(self._ends, span - 1))
        counts = last - first
        sample = (
            np.arange(counts.sum())
            - np.repeat(np.cumsum(counts) - counts, counts)
            + np.repeat(first, counts)
        )
        place = order[sample]
        found = np.unique(place * len(self._traces) + np.repeat(self._trace_number, counts))
        place, number = np.divmod(found, len(self._traces))
        return host[place], ts[place], number

    def columns(self, number: Ints) -> dict[str, Iterable[str | float]]:
        """The process numbers as the columns of the stream."""
        what = [self._traces[i] for i in number]
        return {
            "user": [w.user for w in what],
            "experiment": [w.experiment for w in what],
            "process": [w.process for w in what],
        }


def write_history(
    testbed: Testbed, directory: Path, streams: Iterable[StreamName] = STREAMS
) -> Iterator[HistoryFile]:
    """Write history as ``<stream>/<day>.jsonl``, all streams of a day before the next day.

    Yields each file once it is there; a file has its name only when it is complete.
    """
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for batches in zip(*(_daily_batches(testbed, stream) for stream in streams), strict=True):
        for stream, day, rows in batches:
            path = directory / stream / f"{day}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}")
            unfinished.write_text("".join(encode(row) + "\n" for row in rows), encoding="utf-8")
            unfinished.replace(path)
            yield HistoryFile(stream, day, path, len(rows))


def _daily_batches(
    testbed: Testbed, stream: StreamName
) -> Iterator[tuple[StreamName, date, list[StreamRow]]]:
    for day, rows in testbed.history(stream):
        yield stream, day, rows


def _check_arguments(history: timedelta, live: timedelta, nodes: int) -> None:
    if history < timedelta(days=1):
        raise ValueError("the testbed needs at least a day of history")
    if live < timedelta(seconds=30):
        raise ValueError("the live phase needs at least 30 seconds")
    if nodes < 20:
        raise ValueError("the testbed needs at least 20 nodes")


def _draw_nodes(rng: np.random.Generator, count: int) -> tuple[Node, ...]:
    """Machines named after their sites, as ``delft-2``."""
    nodes = []
    for index in range(count):
        site = SITES[index % len(SITES)]
        size = int(rng.integers(3))
        nodes.append(
            Node(f"{site}-{index // len(SITES) + 1}", site, (4, 8, 16)[size], (8, 16, 32)[size])
        )
    return tuple(sorted(nodes, key=lambda node: node.host))


def _draw_past_failures(
    rng: np.random.Generator, span: tuple[int, int], hosts: int
) -> list[_Outage]:
    """The failures of history, 15 to 60 minutes long (silence at least 25), in order of their
    start.
    """
    days = (span[1] - span[0]) / DAY
    count = max(len(CAUSES) * MIN_FAILURES_PER_CAUSE, round(days * rng.uniform(*FAILURES_PER_DAY)))
    starts = _spread_times(rng, (span[0] + HOUR, span[1] - 2 * HOUR), count) // SECOND * SECOND
    outages: list[_Outage] = []
    for at, cause in zip(starts.tolist(), _draw_causes(rng, count), strict=True):
        least = 25 if cause.kind == "silent" else 15
        length = int(rng.integers(least * MINUTE, HOUR)) // SECOND * SECOND
        outages.append(_Outage(cause, _pick_host(rng, outages, cause, at, hosts), at, at + length))
    return outages


def _draw_live_failures(
    rng: np.random.Generator, past: list[_Outage], span: tuple[int, int], hosts: int
) -> list[_Outage]:
    """The failures of the live phase, from 12 s long (silence 20) to the end of it, on different
    hosts.
    """
    chosen = _draw_live_causes(rng, [outage.cause for outage in past])
    starts = _spread_times(rng, (span[0] + 8 * SECOND, span[1] - 20 * SECOND), len(chosen))
    outages: list[_Outage] = []
    for at, cause in zip(starts.tolist(), chosen, strict=True):
        least = at + (20 if cause.kind == "silent" else 12) * SECOND
        ends = min(
            int(rng.integers(least, span[1] + 20 * SECOND)), span[1]
        )  # a good part lasts to the end
        outages.append(_Outage(cause, _pick_host(rng, past + outages, cause, at, hosts), at, ends))
    return outages


def _draw_causes(rng: np.random.Generator, count: int) -> list[FailureCause]:
    """The causes of history: about equally many of each."""
    every = [cause for cause in CAUSES for _ in range(MIN_FAILURES_PER_CAUSE)]
    return _shuffle_causes(
        rng, every + [CAUSES[i] for i in rng.integers(len(CAUSES), size=count - len(every))], {}
    )


def _draw_live_causes(
    rng: np.random.Generator, before: Iterable[FailureCause]
) -> list[FailureCause]:
    """The causes of the live phase, all different."""
    chosen: list[FailureCause] = []
    for kind in FAILURE_KINDS:
        of_kind = [cause for cause in CAUSES if cause.kind == kind]
        chosen += [of_kind[i] for i in rng.permutation(len(of_kind))[: LIVE_FAILURES[kind]]]
    return _shuffle_causes(rng, chosen, {cause.kind: cause for cause in before})


def _shuffle_causes(
    rng: np.random.Generator, chosen: list[FailureCause], last: Mapping[FailureKind, FailureCause]
) -> list[FailureCause]:
    """The causes in an order in which one rarely follows itself within its kind, `last` ones
    included.
    """
    mixed = [chosen[i] for i in rng.permutation(len(chosen))]
    latest = dict(last)
    for i in range(len(mixed)):
        if mixed[i] is latest.get(mixed[i].kind):
            j = int(rng.integers(i, len(mixed)))
            mixed[i], mixed[j] = mixed[j], mixed[i]
        latest[mixed[i].kind] = mixed[i]
    return mixed


def _pick_host(
    rng: np.random.Generator, before: list[_Outage], cause: FailureCause, at: int, hosts: int
) -> int:
    """A host at rest, rarely one whose last failure of this kind had the same cause."""
    tired = {outage.host for outage in before if outage.ends > at - MIN_HEALTHY_TIME}
    rested = [host for host in range(hosts) if host not in tired]
    last = {outage.host: outage.cause for outage in before if outage.cause.kind == cause.kind}
    first, second = rested[rng.integers(len(rested))], rested[rng.integers(len(rested))]
    return second if last.get(first) is cause else first


def _draw_experiment(
    rng: np.random.Generator,
    experiment: str,
    users: list[str],
    habit: _ExperimentProfile,
    span: tuple[int, int],
    hosts: int,
) -> Iterator[_RunningProcess]:
    """Its runs one after the other, each by one of its users on hosts of its own choice."""
    names = rng.choice(causes.PROCESSES, size=habit.processes, replace=False).tolist()
    at = span[0] - int(rng.integers(DAY))
    while at < span[1]:
        end = at + int(rng.integers(*habit.length))
        user = users[rng.integers(len(users))]
        for host in np.flatnonzero(rng.random(hosts) < rng.uniform(*habit.share)).tolist():
            for name in names[: rng.integers(1, habit.processes + 1)]:
                yield _RunningProcess(host, ProcessTrace(name, experiment, user), at, end)
        at = end + int(rng.integers(HOUR, 8 * HOUR))


def _draw_decoys(
    rng: np.random.Generator, span: tuple[int, int], hosts: int
) -> Iterator[_RunningProcess]:
    """Single terms of the causes' signatures in other company, about one per host and day."""
    for _ in range(round(hosts * (span[1] - span[0]) / DAY)):
        cause = CAUSES[rng.integers(len(CAUSES))]
        only = cause.signature[rng.integers(len(cause.signature))]
        trace = next(trace for trace in cause.traces if only in trace.terms())
        start = int(rng.integers(*span))
        end = start + int(rng.integers(HOUR, 4 * HOUR))
        yield _RunningProcess(
            int(rng.integers(hosts)), trace.fill_from(_draw_ordinary_trace(rng), {only}), start, end
        )


def _draw_failure_traces(rng: np.random.Generator, cause: FailureCause) -> list[ProcessTrace]:
    """The traces of one failure: each term of the signature but the first may be missing, one at a
    time.
    """
    _, *others = kept = cause.signature
    if rng.random() < TERM_ABSENCE_PROBABILITY * len(others):
        missing = others[rng.integers(len(others))]
        kept = tuple(term for term in kept if term != missing)
    ordinary = _draw_ordinary_trace(rng)
    return [trace.fill_from(ordinary, kept) for trace in cause.traces]


def _draw_ordinary_trace(rng: np.random.Generator) -> ProcessTrace:
    """A process such as may run anywhere, to stand where a cause names nothing."""
    names = (causes.PROCESSES, causes.BROAD_EXPERIMENTS, causes.OWNERS)
    return ProcessTrace(*(choice[rng.integers(len(choice))] for choice in names))


def _draw_resolver(rng: np.random.Generator, hour: int) -> str:
    shift = "ops-day" if 7 <= hour < 20 else "ops-night"
    return str(rng.choice([shift, shift, shift, "site-admin", "on-call"]))


def _spread_times(rng: np.random.Generator, span: tuple[int, int], count: int) -> Ints:
    """So many times over the span, in order: one somewhere in each of `count` equal parts."""
    width = (span[1] - span[0]) / count
    return (span[0] + (np.arange(count) + rng.random(count)) * width).astype(np.int64)


def _sample_times(
    window: tuple[int, int], base: int, period: int, offsets: Ints
) -> tuple[Ints, Ints]:
    """Every host at base + its offset + k * period, within the window, as (host, ts) by ts, then
    host.
    """
    ticks = np.arange((window[0] - base) // period - 1, (window[1] - base) // period + 1)
    ts = base + offsets[:, None] + ticks * period
    host = np.broadcast_to(np.arange(len(offsets))[:, None], ts.shape)
    inside = (ts >= window[0]) & (ts < window[1])
    host, ts = host[inside], ts[inside]
    order = np.lexsort((host, ts))
    return host[order], ts[order]


def _round_values(values: Floats, digits: int) -> list[float]:
    rounded: list[float] = np.round(values, digits).tolist()
    return rounded


def _format_times(ts: Ints, unit: Literal["s", "ms"]) -> list[str]:
    distinct, place = np.unique(ts, return_inverse=True)
    texts = np.datetime_as_string(
        distinct.astype("datetime64[ms]"), unit=unit, timezone="UTC"
    ).tolist()
    return [texts[i] for i in place]


def _to_millis(at: datetime) -> int:
    """The first whole millisecond at or after `at`."""
    return -((EPOCH - at) // timedelta(milliseconds=1))


def _from_millis(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)
