"""G6, G7: ten recalls at once over one archive, by the real manager, ledger and reader, in this process.

G6: the slowest first answer, beside the same ten recalls one after the other (FIFO). G7: how evenly pieces of history
are given out half way (Jain's index), and how far shares are from tickets of 1:2:4. Questions differ, so that no two
share a query.
"""

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.chunk import CutPolicy
from archiver.ingest import Archive
from archiver.reader import Reader
from archiver.schema import StreamSchema
from archiver.times import span, to_micros
from archiver.units import Unit
from benchmarks.results import Result, kernel, result
from moirae import database
from moirae.settings import Settings, from_environment
from recall.corpora import Corpora
from recall.engines.chosen import Engines
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.keys import Keys
from recall.ledger import Ledger, Terms
from recall.manager import Manager
from recall.request import Asked, Request, SqlQuestion
from recall.schedule import Stride

_REPETITIONS = 5
_START = datetime(2026, 1, 1, tzinfo=UTC)
_CHUNKS, _ROWS, _UNITS = 100, 10_000, 20
CHUNK = _ROWS * 1_000_000
"""Microseconds of event time in a chunk."""
END = to_micros(_START + timedelta(seconds=_CHUNKS * _ROWS))
_COLUMNS = {"ts": "timestamp", "host": "string", "v": "double"}
SCHEMA = StreamSchema("past", _COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(days=1))
_WORKSPACE = """
home: .moirae
streams:
  past: {columns: {ts: timestamp, host: string, v: double}, time: ts, source: {files: landing/*.jsonl}}
rules: []
"""


class _Fifo(Stride[UUID]):
    """Who came first goes first, to the end."""

    def next(self, able: Iterable[UUID]) -> UUID | None:
        waiting = set(able)
        return next((task for task in self._turns if task in waiting), None)


def run() -> list[Result]:
    """Measure, interleaved."""
    noise, ratios, stride_seconds, fifo_seconds, jain, off = [], [], [], [], [], []
    with archive() as (root, connection, _):
        for repetition in range(_REPETITIONS):
            noise.append(kernel())
            ours = _slowest_first(root, connection, Stride())
            theirs = _slowest_first(root, connection, _Fifo())
            ratios.append(ours / theirs)
            stride_seconds.append(ours)
            fifo_seconds.append(theirs)
            jain.append(_jain(_shares(root, connection, [100] * 10)))
            shares = _shares(root, connection, [100, 200, 400])
            wanted = [sum(shares) * part / 7 for part in (1, 2, 4)]
            off.append(max(abs(a - b) / b for a, b in zip(shares, wanted, strict=True)))
            told = f"stride {ours:.3f} s, FIFO {theirs:.3f} s, Jain {jain[-1]:.4f}, 1:2:4 off by {off[-1]:.1%}"
            print(f"{repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    beside = {
        "stride_seconds": round(statistics.median(stride_seconds), 3),
        "fifo_seconds": round(statistics.median(fifo_seconds), 3),
    }
    return [
        result(
            "G6",
            "slowest first answer of 10 recalls at once ÷ the same by FIFO",
            ratios,
            "≤ 1/25 = 0.04",
            beside,
            noise,
        ),
        result("G7", "Jain's index of pieces served to 10 equal recalls, half way", jain, "≥ 0.98", {}, noise),
        result("G7", "tickets 1:2:4: largest relative distance of a share, half way", off, "≤ 0.10", {}, noise),
    ]


@contextmanager
def archive() -> Iterator[tuple[Path, Connection[Any], Settings]]:
    """A workspace with a million rows in a hundred chunks."""
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(_WORKSPACE)
    settings = from_environment(root / "moirae.yaml")
    connection = database.connect(settings, "benchmark")
    archive = Archive(
        Path(settings.archive), [SCHEMA], CutPolicy(_ROWS, span(timedelta(days=365))), connection, lambda: None
    )
    rng = random.Random(1)
    each = _CHUNKS * _ROWS // _UNITS
    for number in range(_UNITS):
        lines = [_line(rng, number * each + row) for row in range(each)]
        archive.ingest(
            [Unit("past", f"u{number}", "jsonl", lambda lines=lines: iter(lines))], to_micros(datetime.now(UTC))
        )
    try:
        yield Path(settings.archive), connection, settings
    finally:
        connection.close()
        shutil.rmtree(root, ignore_errors=True)


def _line(rng: random.Random, number: int) -> bytes:
    ts = (_START + timedelta(seconds=number)).isoformat()
    return json.dumps({"ts": ts, "host": f"h{rng.randrange(20)}", "v": round(rng.uniform(0, 100), 2)}).encode()


def _manager(
    root: Path, connection: Connection[Any], stride: Stride[UUID], tickets: list[int], workers: int = 2
) -> Manager:
    ask(connection, [(number, f"h.v > {number}") for number, _ in enumerate(tickets)])
    for number, count in enumerate(tickets):
        connection.execute("UPDATE tasks SET tickets = %s WHERE recall = %s", (count, f"recall{number}"))
    return manager(root, connection, [engines(root, Kept()) for _ in range(workers)], stride)


def ask(connection: Connection[Any], asked: Sequence[tuple[int, str]]) -> None:
    """One recall for each host and condition, at the end of history; nothing else is asked."""
    connection.execute("TRUNCATE tasks CASCADE")
    for number, (host, condition) in enumerate(asked):
        question = questioned(condition)
        event = Asked(UUID(int=number + 1), END, {}, {"host": f"h{host}"})
        Ledger(connection).add([Request("bench/r", "1", f"recall{number}", question, event, 0)])


def questioned(condition: str) -> SqlQuestion:
    """A question about a host's rows."""
    outputs = "avg(h.v) AS mean, stddev(h.v) AS sd, count(*) AS n"
    sql = f"SELECT {outputs} FROM past h WHERE h.host = event.host AND {condition}"
    return SqlQuestion(None, 1.0, "newest", sql, {"past": "ts"}, (), {}, {"host": "string"}, {}, {})


def manager(
    root: Path, connection: Connection[Any], workers: list[Engines], stride: Stride[UUID] | None = None
) -> Manager:
    """A manager that keeps tickets as they are."""
    ledger = Ledger(connection, Ledger.lease(connection), Terms(price=0))
    keys = Keys(Reader(root, [SCHEMA]))
    return Manager(connection, ledger, Corpora(connection, root), keys, workers, 600.0, stride=stride)


def engines(root: Path, kept: Kept) -> Engines:
    """Those of one worker."""

    def relations(name: str) -> pa.Table:
        raise AssertionError(name)

    reader = Reader(root, [SCHEMA])
    return Engines(SparkEngine(_no_spark, reader, relations), LocalEngine(reader), kept)


def _no_spark() -> SparkSession:
    raise AssertionError("these questions are served in the process")


def _slowest_first(root: Path, connection: Connection[Any], stride: Stride[UUID]) -> float:
    manager = _manager(root, connection, stride, [100] * 10)
    began = time.monotonic()
    while _count(connection, "first_at IS NULL"):
        manager.round()
        manager.rest()
    seconds = time.monotonic() - began
    manager.finish()
    return seconds


def _shares(root: Path, connection: Connection[Any], tickets: list[int]) -> list[int]:
    """Pieces served to each when half of what the busiest can have is given out."""
    # One query at a time: of two places, a task that is served by one query at a time cannot fill more than one.
    manager = _manager(root, connection, Stride(), tickets, workers=1)
    goal = _CHUNKS * sum(tickets) // (2 * max(tickets))
    while True:
        manager.round()
        manager.rest()
        rows = connection.execute("SELECT next FROM tasks ORDER BY recall").fetchall()
        served = [int(row[0]) for row in rows]
        if sum(served) >= goal:
            manager.finish()
            return served


def _count(connection: Connection[Any], condition: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM tasks WHERE {condition}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _jain(shares: list[int]) -> float:
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
