"""HS9: what a commit, a snapshot and maintenance of a stream's table cost after many commits.

A table whose files stay as many: each commit of the log that is made here adds a file and removes
the oldest one, as clustering and expiry do over the years. Its log is made of commits that were
written without data; those that are timed are real appends of a few rows.
"""

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import psutil
import pyarrow as pa

from archiver.chunks import ChunkMaintenance
from archiver.delta import StreamTable
from archiver.read import Reader
from benchmarks.fixtures import folder_bytes, temporary_folder
from benchmarks.long_history import CHUNK_MICROS, SCHEMA, START
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import measure_seconds, time_noise_kernel

_FEW_COMMITS = 1_000
_MANY_COMMITS = 100_000
_FILES = 400  # of the table, in as many chunks
_CHECKPOINT_EVERY = 2_000  # commits; the product does it every 200
_COMMIT_INTERVAL = 10.0  # seconds between two commits
_APPENDS = 150
_ROWS = 20
_SNAPSHOTS = 40
_HISTORY = 86_400.0  # seconds, as by default
_FIGURES = {"append": "ms", "snapshot": "ms", "maintenance": "ms", "memory": "MB"}


class LongLog:
    """A table in a folder, and its log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._table = StreamTable(folder, SCHEMA)
        self._table.append(_make_rows(0), 0)
        self._table.set_history(_HISTORY)
        self._version = self._table.version
        self._log = folder / "streams" / SCHEMA.name / "_delta_log"
        self._paths: list[str] = []
        self._commits = 0

    def extend(self, commits: int) -> None:
        """Write commits up to a number, with checkpoints."""
        self._commits = commits
        while self._version < commits:
            for _ in range(min(_CHECKPOINT_EVERY, commits - self._version)):
                self._version += 1
                path = self._log / f"{self._version:020d}.json"
                path.write_text(self._make_commit(self._version))
                seconds = self._time_of(self._version) / 1_000
                os.utime(path, (seconds, seconds))  # by which old commits are deleted
            self._table = StreamTable(self._folder, SCHEMA)
            self._table.checkpoint()

    def _time_of(self, version: int) -> int:
        """Milliseconds since 1970 at which a commit seems to have been written."""
        return int((time.time() - (self._commits - version) * _COMMIT_INTERVAL) * 1_000)

    def _make_commit(self, version: int) -> str:
        """A file more, and one less."""
        chunk = version % _FILES
        path = f"chunk={chunk}/c-s{uuid4().hex}.parquet"
        self._paths.append(path)
        now = self._time_of(version)
        low = START + chunk * CHUNK_MICROS
        stats = {
            "numRecords": 1_000,
            "minValues": {"ts": _format(low)},
            "maxValues": {"ts": _format(low + CHUNK_MICROS - 1)},
            "nullCount": {"ts": 0},
        }
        tags = {"moirae.sha256": uuid4().hex * 2, "moirae.place": "900"}
        add = {
            "path": path,
            "partitionValues": {"chunk": str(chunk)},
            "size": 20_000,
            "modificationTime": now,
            "dataChange": False,
            "stats": json.dumps(stats),
            "tags": tags,
        }
        info = {"timestamp": now, "operation": "OPTIMIZE", "engineInfo": "Moirae"}
        actions: list[Mapping[str, Any]] = [{"commitInfo": info}]
        if len(self._paths) > _FILES:
            removed = self._paths.pop(0)
            remove = {
                "path": removed,
                "deletionTimestamp": now,
                "dataChange": False,
                "extendedFileMetadata": True,
                "partitionValues": {"chunk": removed.partition("/")[0].removeprefix("chunk=")},
                "size": 20_000,
            }
            actions.append({"remove": remove})
        return "\n".join(json.dumps(action) for action in [*actions, {"add": add}])


def measure(folder: Path) -> dict[str, float]:
    """Milliseconds of an append, a snapshot and a run of maintenance, and MB of this process."""
    table = StreamTable(folder, SCHEMA)
    rows = _make_rows(0)
    numbers = itertools.count(1)
    append = _median(lambda: table.append(rows, next(numbers)), _APPENDS)
    reader = Reader(folder, [SCHEMA])
    reader.snapshot(SCHEMA.name)

    def snapshot() -> None:
        reader.refresh()
        reader.snapshot(SCHEMA.name)

    maintenance = ChunkMaintenance(folder, [SCHEMA], 60.0, history=_HISTORY)
    maintenance._run_vacuum()  # the first one reads what the log names as removed
    snapshots: list[float] = []
    vacuums: list[float] = []
    for _ in range(_SNAPSHOTS):
        table.append(rows, next(numbers))
        snapshots.append(measure_seconds(snapshot) * 1_000)
        vacuums.append(measure_seconds(maintenance._run_vacuum) * 1_000)
    maintenance.stop()
    return {
        "append": append,
        "snapshot": statistics.median(snapshots),
        "maintenance": statistics.median(vacuums),
        "memory": psutil.Process().memory_info().rss / 1e6,
    }


def _format(micros: int) -> str:
    return str(np.datetime64(micros, "us")) + "Z"


def _median(step: Callable[[], object], repetitions: int) -> float:
    """In milliseconds."""
    return statistics.median(measure_seconds(step) for _ in range(repetitions)) * 1_000


def _make_rows(chunk: int) -> pa.Table:
    arrow = SCHEMA.arrow_schema()
    columns: dict[str, Any] = {}
    times = START + chunk * CHUNK_MICROS + np.arange(_ROWS)
    for field in arrow:
        columns[field.name] = pa.nulls(_ROWS, field.type)
    columns["ts"] = pa.array(times, arrow.field("ts").type)
    columns["host"] = pa.array(["h1"] * _ROWS)
    columns["_late"] = pa.array([False] * _ROWS)
    columns["chunk"] = pa.array([chunk] * _ROWS, pa.int32())
    return pa.table(columns).select([name for name in arrow.names if name != "_append"])


def run() -> list[BenchmarkResult]:
    """Measure after few and after many commits, each in a process of its own."""
    noise = [time_noise_kernel()]
    with temporary_folder() as folder:
        log = LongLog(folder)
        log.extend(_FEW_COMMITS)
        with temporary_folder() as copy:  # the measurement leaves files
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            few = _measure_apart(copy)
        log.extend(_MANY_COMMITS)
        many = _measure_apart(folder)
        log_bytes = folder_bytes(folder / "streams" / SCHEMA.name / "_delta_log")
    noise.append(time_noise_kernel())
    print(f"HS9 {few} {many}, log of {log_bytes / 1e6:.1f} MB", file=sys.stderr)
    results: list[BenchmarkResult] = []
    for name, unit in _FIGURES.items():
        details = {f"few, {unit}": round(few[name], 2), f"many, {unit}": round(many[name], 2)}
        results.append(
            make_result(
                "HS9",
                f"{name} after {_MANY_COMMITS:,} commits ÷ after {_FEW_COMMITS:,}",
                [many[name] / few[name]],
                target="≤ 1.2",
                noise=noise,
                details=details,
            )
        )
    return results


def _measure_apart(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.long_log", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
