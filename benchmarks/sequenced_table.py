"""G13, G14 for settled events: what archiving them costs as they come, by the real table and its
upkeep.

1,000 looks at 500 new events each, a chunk closed with every fiftieth: bytes written ÷ the bytes
that then make up the table, beside it the same by Delta's own writer, a commit a look. An append
at 1,000 commits ÷ one at 20.
"""

import statistics
import sys
import time
from pathlib import Path
from uuid import UUID

import numpy as np
import orjson
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from archiver.delta import EVENTS, SequencedTable, should_commit
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel

_CYCLES, _EVENTS_PER_CYCLE, _CYCLES_PER_CHUNK = 1_000, 500, 50
# Seconds between two looks.
_CYCLE_INTERVAL = 5.0
_ROWS_PER_APPEND = 20


def run(folder: Path, repetitions: int) -> list[BenchmarkResult]:
    """Measure, in a folder that may be filled."""
    noise, written, naive, appends = [], [], [], []
    for repetition in range(repetitions):
        noise.append(time_noise_kernel())
        written.append(_write_amplification(folder / f"events{repetition}"))
        naive.append(_naive_write_amplification(folder / f"naive events{repetition}"))
        appends.append(_append_ratio(folder / f"appends{repetition}"))
        told = f"written {written[-1]:.2f}, append {appends[-1]:.2f}"
        print(f"settled events {repetition + 1}/{repetitions}: {told}", file=sys.stderr)
    beside = {"naive": round(statistics.median(naive), 2)}
    return [
        make_result(
            "G13",
            "settled events: bytes written ÷ live bytes, 1,000 looks",
            written,
            "≤ 1.5",
            beside,
            noise,
        ),
        make_result(
            "G14", "settled events: append at 1,000 commits ÷ at 20", appends, "≤ 1.1", {}, noise
        ),
    ]


def _write_amplification(root: Path) -> float:
    """What an outbox does: rows wait until there are enough, or their chunk is closed. Nothing is
    deleted here.
    """
    table, last, seen, flushed = SequencedTable(root, EVENTS), 0, 0, 0
    for look in range(1, _CYCLES + 1):
        seen += _EVENTS_PER_CYCLE
        closed = (
            last
            < seen
            // (_EVENTS_PER_CYCLE * _CYCLES_PER_CHUNK)
            * _EVENTS_PER_CYCLE
            * _CYCLES_PER_CHUNK
        )
        if (
            should_commit(seen - last, closed, (look - flushed) * _CYCLE_INTERVAL)
            or look == _CYCLES
        ):
            table.append(_make_rows(last, seen), last, seen)
            last, flushed = seen, look
        table.compact()
        table.checkpoint()
    return _folder_bytes(table.data_folder) / sum(file.bytes for file in table.data_files())


def _naive_write_amplification(root: Path) -> float:
    """A fifth of the looks: each append takes longer."""
    for look in range(_CYCLES // 5):
        rows = _make_rows(look * _EVENTS_PER_CYCLE, (look + 1) * _EVENTS_PER_CYCLE)
        write_deltalake(root, rows, mode="append", partition_by=["chunk"])
    table = DeltaTable(root)
    table.optimize.compact()
    live: int = sum(pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist())
    return _folder_bytes(root) / live


def _append_ratio(root: Path) -> float:
    """The ratio of medians of single appends, taken in turns."""
    tables = [SequencedTable(root / str(commits), EVENTS) for commits in (1_000, 20)]
    lasts = [0, 0]
    for which, commits in enumerate((1_000, 20)):
        for _ in range(commits):
            tables[which].append(
                _make_rows(lasts[which], lasts[which] + _ROWS_PER_APPEND),
                lasts[which],
                lasts[which] + _ROWS_PER_APPEND,
            )
            lasts[which] += _ROWS_PER_APPEND
    taken: tuple[list[float], list[float]] = [], []
    for turn in range(60):
        for which in (0, 1) if turn % 2 else (1, 0):
            rows, after = _make_rows(lasts[which], lasts[which] + _ROWS_PER_APPEND), lasts[which]
            lasts[which] += _ROWS_PER_APPEND
            began = time.perf_counter()
            tables[which].append(rows, after, lasts[which])
            taken[which].append(time.perf_counter() - began)
    return statistics.median(taken[0]) / statistics.median(taken[1])


def _make_rows(after: int, last: int) -> pa.Table:
    """Events as rules find them: of 40 hosts and 5 rules, with two numbers each."""
    numbers = range(after, last)
    rng = np.random.default_rng(after)
    hosts, values = (
        rng.integers(0, 40, len(numbers)).tolist(),
        np.round(rng.uniform(0, 100, len(numbers)), 2).tolist(),
    )
    keys = [{"host": f"host{host}"} for host in hosts]
    return pa.table(
        {
            "ts": pa.array([n * 20_000 for n in numbers], pa.timestamp("us", tz="UTC")),
            "eid": [str(UUID(bytes=rng.bytes(16))) for _ in numbers],
            "rule": [f"testbed/Rule{n % 5}" for n in numbers],
            "version": [f"{n % 5:064x}" for n in numbers],
            "key": [orjson.dumps(key).decode() for key in keys],
            "attributes": [
                orjson.dumps({**key, "cpu": value, "n": n}).decode()
                for key, value, n in zip(keys, values, numbers, strict=True)
            ],
            "chunk": pa.array(
                [n // (_EVENTS_PER_CYCLE * _CYCLES_PER_CHUNK) for n in numbers], pa.int32()
            ),
        }
    )


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
