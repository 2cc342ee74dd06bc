"""G13, G14 for the event table: cost of archiving settled events, by the real table.

In 1,000 cycles 500 new events arrive, and every 50 cycles a chunk is closed: bytes written ÷ the
bytes of the live files; for comparison, the same by Delta's own writer, with a commit in each
cycle. An append after 1,000 commits ÷ one after 20. The benchmark is run by `benchmarks.archive`.
"""

import statistics
import sys
from functools import partial
from pathlib import Path
from uuid import UUID

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from archiver.delta.sequenced_table import EVENTS, SequencedTable, should_commit
from benchmarks.fixtures import folder_bytes
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel

_CYCLES = 1_000
_CYCLE_INTERVAL = 5.0  # seconds
_DELTA_CYCLES = 200  # for Delta's own writer, whose appends take longer and longer
_EVENTS_PER_CYCLE = 500
_EVENTS_PER_CHUNK = 50 * _EVENTS_PER_CYCLE
_EVENT_INTERVAL = 20_000  # microseconds of event time
_HOST_COUNT = 40
_RULE_COUNT = 5
# The two tables whose appends are compared.
_MANY_COMMITS = 1_000
_FEW_COMMITS = 20
_EVENTS_PER_APPEND = 20
_APPEND_PAIRS = 60  # timings of an append for each of the two tables


def run(folder: Path, repetitions: int) -> list[BenchmarkResult]:
    """Measure both goals, with tables in a folder."""
    noise: list[float] = []
    amplification: list[float] = []
    delta_amplification: list[float] = []
    append_ratios: list[float] = []
    for repetition in range(repetitions):
        noise.append(time_noise_kernel())
        amplification.append(_write_amplification(folder / f"events{repetition}"))
        delta_amplification.append(_delta_write_amplification(folder / f"delta{repetition}"))
        append_ratios.append(_append_ratio(folder / f"appends{repetition}"))
        print(
            f"event table {repetition + 1}/{repetitions}: "
            f"bytes written ÷ live {amplification[-1]:.2f}, append {append_ratios[-1]:.2f}",
            file=sys.stderr,
        )
    return [
        make_result(
            "G13",
            f"bytes written ÷ live bytes: event table, {_CYCLES:,} cycles",
            amplification,
            target="≤ 1.5",
            details={"delta_writer": rounded_median(delta_amplification, 2)},
            noise=noise,
        ),
        make_result(
            "G14",
            f"append, event table after {_MANY_COMMITS:,} commits ÷ after {_FEW_COMMITS}",
            append_ratios,
            target="≤ 1.1",
            noise=noise,
        ),
    ]


def _write_amplification(root: Path) -> float:
    """Write as the outbox does: events are committed when there are enough or a chunk is closed.

    No files are deleted.
    """
    table = SequencedTable(root, EVENTS)
    committed_events = 0
    committed_cycle = 0
    for cycle in range(1, _CYCLES + 1):
        events = cycle * _EVENTS_PER_CYCLE
        is_chunk_closed = committed_events < events // _EVENTS_PER_CHUNK * _EVENTS_PER_CHUNK
        seconds_since_commit = (cycle - committed_cycle) * _CYCLE_INTERVAL
        if cycle == _CYCLES or should_commit(
            events - committed_events, is_chunk_closed, seconds_since_commit
        ):
            table.append(_make_events(committed_events, events), committed_events, events)
            committed_events = events
            committed_cycle = cycle
        table.compact()
        table.checkpoint()
    live_bytes = sum(file.bytes for file in table.data_files())
    return folder_bytes(table.data_folder) / live_bytes


def _delta_write_amplification(root: Path) -> float:
    """The same by Delta's own writer, for fewer cycles."""
    for first in range(0, _DELTA_CYCLES * _EVENTS_PER_CYCLE, _EVENTS_PER_CYCLE):
        rows = _make_events(first, first + _EVENTS_PER_CYCLE)
        write_deltalake(root, rows, mode="append", partition_by=["chunk"])
    table = DeltaTable(root)
    table.optimize.compact()
    live_files = pa.table(table.get_add_actions(flatten=True))
    return folder_bytes(root) / int(pc.sum(live_files["size_bytes"]).as_py())


class _AppendTimer:
    """A table of small appends."""

    def __init__(self, root: Path, commits: int) -> None:
        self._table = SequencedTable(root, EVENTS)
        self._last = 0
        self.seconds: list[float] = []
        for _ in range(commits):
            self._append()

    def measure(self) -> None:
        """Append once, and record the seconds."""
        self.seconds.append(self._append())

    def _append(self) -> float:
        first = self._last
        self._last += _EVENTS_PER_APPEND
        rows = _make_events(first, self._last)
        return measure_seconds(partial(self._table.append, rows, first, self._last))


def _append_ratio(root: Path) -> float:
    """The ratio of the median seconds of an append to two tables, measured alternately."""
    many = _AppendTimer(root / "many", _MANY_COMMITS)
    few = _AppendTimer(root / "few", _FEW_COMMITS)
    timers = [many, few]
    for _ in range(_APPEND_PAIRS):
        # The second of a pair benefits from warm processor caches: the order alternates.
        timers.reverse()
        for timer in timers:
            timer.measure()
    return statistics.median(many.seconds) / statistics.median(few.seconds)


def _make_events(after: int, last: int) -> pa.Table:
    """Settled events with sequence numbers from `after + 1` to `last`."""
    rng = np.random.default_rng(after)
    numbers = np.arange(after, last)
    hosts = rng.integers(0, _HOST_COUNT, len(numbers)).tolist()
    values = np.round(rng.uniform(0, 100, len(numbers)), 2).tolist()
    eids = []
    keys = []
    attributes = []
    for number, host, value in zip(numbers.tolist(), hosts, values, strict=True):
        key = {"host": f"host{host}"}
        eids.append(str(UUID(bytes=rng.bytes(16))))
        keys.append(orjson.dumps(key).decode())
        attributes.append(orjson.dumps({**key, "cpu": value, "n": number}).decode())
    rules = (numbers % _RULE_COUNT).tolist()
    return pa.table(
        {
            "ts": pa.array(numbers * _EVENT_INTERVAL, pa.timestamp("us", tz="UTC")),
            "eid": eids,
            "rule": list(map("testbed/Rule{}".format, rules)),
            "version": list(map("{:064x}".format, rules)),
            "key": keys,
            "attributes": attributes,
            "chunk": pa.array(numbers // _EVENTS_PER_CHUNK, pa.int32()),
        }
    )
