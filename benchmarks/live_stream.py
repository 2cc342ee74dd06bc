"""A stream of CPU readings, written as files to the landing folder at a fixed rate."""

import json
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FILE_INTERVAL = 0.1  # seconds
ROWS_PER_FILE = 50  # 500 rows per second
_HOST_COUNT = 10
_NUMBERS_PER_FILE = 1000  # the column n of a file's rows starts at a multiple of this

Row = dict[str, Any]

CPU_WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: bigint, cpu: double}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {files: landing/*.jsonl}
rules: [rules.yaml]
server: {listen: "127.0.0.1:0"}
"""
"""A workspace with the stream of `CpuStream`."""

HIGH_RULES = """
groups:
- name: bench
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 98
    key: [n]
    id: [n]
    keep_firing_for: 1s
"""
"""Rules of which every fiftieth row is an alert: `bench/High`."""


class CpuStream:
    """Writes files of the stream (ts, host, n, cpu); `cpu` is uniform in [0, 100]."""

    def __init__(self, landing: Path, seed: int) -> None:
        self._landing = landing
        self._rng = random.Random(seed)
        self._file_number = 0

    def make_rows(self, now: datetime) -> list[Row]:
        """The rows of the file interval that ends now."""
        self._file_number += 1
        rows = []
        for i in range(ROWS_PER_FILE):
            age = FILE_INTERVAL * (1 - (i + 1) / ROWS_PER_FILE)
            ts = now - timedelta(seconds=age)
            row = {
                "ts": ts.isoformat(timespec="microseconds").replace("+00:00", "Z"),
                "host": f"h{self._rng.randrange(_HOST_COUNT)}",
                "n": self._file_number * _NUMBERS_PER_FILE + i,
                "cpu": round(self._rng.uniform(0, 100), 2),
            }
            rows.append(row)
        return rows

    def write_file(self, rows: list[Row]) -> None:
        """Write rows under a hidden name, then rename: the file is complete when it is seen."""
        name = f"{self._file_number:08d}.jsonl"
        hidden = self._landing / f".{name}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self._landing / name)


def repeat_at_file_interval(
    write: Callable[[datetime], bool], sleep: Callable[[float], object] = time.sleep
) -> None:
    """Call `write` with the current time at each file interval, as long as it returns True."""
    due_at = time.monotonic()
    while write(datetime.now(UTC)):
        due_at += FILE_INTERVAL
        sleep(max(0.0, due_at - time.monotonic()))


class FileProducer:
    """A thread that calls `write_file` with the current time at each file interval."""

    def __init__(self, write_file: Callable[[datetime], None]) -> None:
        self._write_file = write_file
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _produce(self) -> None:
        repeat_at_file_interval(self._write, sleep=self._stop.wait)

    def _write(self, now: datetime) -> bool:
        self._write_file(now)
        return not self._stop.is_set()
