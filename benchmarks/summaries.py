"""HS3, HS4: norms from summaries of closed chunks, and what it costs to keep these.

HS3: the norm of one of 500 hosts over 20 million rows in 192 chunks, from the claim of its task to the
commit of its final revision, beside the same query on one Parquet file sorted by host and time; and
over a tenth of the chunks. HS4: processor time of the summaries beside that of ingesting the rows, and
bytes beside those of the stream's files.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import duckdb

from archiver.chunks import CutPolicy
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter
from archiver.ingest.source_units import SourceUnit
from benchmarks.fixtures import folder_bytes, temporary_workspace
from benchmarks.long_history import (
    CHUNK_MICROS,
    NORM,
    SCHEMA,
    START,
    WORKSPACE,
    BenchmarkHistory,
    ask_history,
    build_summaries,
    create_engines,
    create_history,
    create_manager,
    draw_json_lines,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database
from recall.engines.routing import PartialCache
from recall.ledger import Ledger
from recall.requests import RecallEvent, RecallRequest

_CHUNKS = 192
_ROWS_PER_CHUNK = 105_000
HOSTS = 500
_REPETITIONS = 15
_INGESTED_CHUNKS = 4
_QUESTION = ask_history(f"{NORM} WHERE p.host = event.host", attribute="host")
_SAME_NORM = "SELECT avg(v), stddev(v), count(*) FROM read_parquet('{}') WHERE host = '{}'"


class SummarisedHistory:
    """A history with a manager, and the summary of its norms."""

    def __init__(self, history: BenchmarkHistory, chunk_count: int) -> None:
        self.history = history
        self._end = START + chunk_count * CHUNK_MICROS
        self._number = 0
        began = time.thread_time()
        self.store = build_summaries(history, _QUESTION)
        self.build_seconds = time.thread_time() - began
        engines = [create_engines(history.root, PartialCache())]
        self._committed_at = 0.0
        self.manager = create_manager(
            history.root,
            history.connection,
            engines,
            summaries=self.store,
            on_answers=self._stamp,
        )

    def _stamp(self) -> None:
        self._committed_at = time.monotonic()

    def time_norm(self) -> float:
        """Seconds from the claim of a task about another host to the commit of its final revision."""
        connection = self.history.connection
        self._number += 1
        host = f"h{self._number * 7 % HOSTS}"
        event = RecallEvent(UUID(int=self._number), self._end, {}, {"host": host})
        request = RecallRequest("bench/r", "1", "norm", _QUESTION, event, level=0)
        Ledger(connection).add([request])
        began = time.monotonic()
        self._committed_at = 0.0
        while not self._committed_at:
            self.manager.run_once()
            self.manager.wait_for_query()
        self.check(event)
        return self._committed_at - began

    def check(self, event: RecallEvent) -> None:
        """The answer was final at once."""
        row = self.history.connection.execute(
            "SELECT t.revision, t.error, r.coverage->>'left' FROM tasks t JOIN revisions r ON r.task = t.id"
            " AND r.number = t.revision WHERE t.eid = %s",
            (event.eid,),
        ).fetchone()
        assert row == (1, None, "0"), row


def _write_sorted(history: BenchmarkHistory, path: Path) -> None:
    """The columns of the stream as one file, sorted by host and time."""
    files = f"{history.root}/streams/past/chunk=*/*.parquet"
    columns = ", ".join(SCHEMA.columns)
    duckdb.sql(
        f"COPY (SELECT {columns} FROM read_parquet('{files}', union_by_name = true) "
        f"ORDER BY host, ts) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
    )


class _SortedFile:
    """DuckDB on one thread over the sorted file, which it has opened before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = duckdb.connect(config={"threads": "1"})
        self._connection.execute("SET parquet_metadata_cache = true")
        self._number = 0
        self.time_norm()

    def time_norm(self) -> float:
        """Seconds of the same query about another host."""
        self._number += 1
        host = f"h{self._number * 7 % HOSTS}"
        began = time.monotonic()
        self._connection.execute(_SAME_NORM.format(self._path, host)).fetchall()
        return time.monotonic() - began


@contextmanager
def open_world(chunk_count: int) -> Iterator[SummarisedHistory]:
    """A history of some chunks with its summary."""
    with create_history(_ROWS_PER_CHUNK, chunk_count, host_count=HOSTS) as history:
        yield SummarisedHistory(history, chunk_count)


def run() -> list[BenchmarkResult]:
    """Measure both lengths of history, the sorted file, and costs."""
    noise = [time_noise_kernel()]
    ratios: list[float] = []
    length_ratios: list[float] = []
    seconds: dict[str, list[float]] = {"sorted file, ms": [], "norm, ms": [], "a tenth, ms": []}
    with open_world(_CHUNKS // 10) as short, open_world(_CHUNKS) as long:
        path = long.history.root / "sorted.parquet"
        _write_sorted(long.history, path)
        sorted_file = _SortedFile(path)
        for world in (short, long):
            world.time_norm()  # loads nodes
        for _ in range(_REPETITIONS):
            times = sorted_file.time_norm(), long.time_norm(), short.time_norm()
            for values, value in zip(seconds.values(), times, strict=True):
                values.append(value * 1_000)
            ratios.append(times[1] / times[0])
            length_ratios.append(times[1] / times[2])
        noise.append(time_noise_kernel())
        node_bytes = folder_bytes(long.history.root / "summaries")
        stream_bytes = folder_bytes(long.history.root / "streams")
        build_seconds = long.build_seconds / (_CHUNKS - 1)
    details = {name: rounded_median(values, 2) for name, values in seconds.items()}
    print(f"HS3 {details}", file=sys.stderr)
    ingest_seconds = _measure_ingest()
    return [
        make_result(
            "HS3",
            "norm over 20 M rows in 192 chunks, claim → final ÷ the query on one sorted file",
            ratios,
            target="≤ 5",
            details=details,
            noise=noise,
        ),
        make_result(
            "HS3", "10 × the history ÷ the history", length_ratios, target="≤ 1.2", noise=noise
        ),
        make_result(
            "HS4",
            "processor time of summaries ÷ that of ingesting the rows",
            [build_seconds / ingest_seconds],
            target="≤ 0.05",
            details={"ms a chunk": round(build_seconds * 1_000, 1)},
            noise=noise,
        ),
        make_result(
            "HS4",
            "bytes of summaries ÷ those of the stream's table",
            [node_bytes / stream_bytes],
            target="≤ 0.05",
            details={"MB": round(node_bytes / 1e6, 2)},
            noise=noise,
        ),
    ]


def _measure_ingest() -> float:
    """Processor seconds to ingest the rows of a chunk, as lines of JSON."""
    with temporary_workspace(WORKSPACE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "benchmark") as connection:
            policy = CutPolicy(_ROWS_PER_CHUNK, CHUNK_MICROS)
            archive = Path(settings.archive)
            writer = ArchiveWriter(archive, [SCHEMA], policy, connection, lambda: None)
            lines = [
                draw_json_lines(chunk, _ROWS_PER_CHUNK, HOSTS)
                for chunk in range(_INGESTED_CHUNKS + 1)
            ]
            for chunk, chunk_lines in enumerate(lines):
                if chunk == 1:  # the first one warms up
                    began = time.process_time()
                unit = SourceUnit("past", f"u{chunk}", JSONL, lambda part=chunk_lines: iter(part))
                writer.ingest([unit], START + (_INGESTED_CHUNKS + 2) * CHUNK_MICROS)
            return (time.process_time() - began) / _INGESTED_CHUNKS
