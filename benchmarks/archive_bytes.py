"""HS1, HS2: bytes of closed chunks, with all that the stream needs wherever it lies.

HS1: data files, log and rows in PostgreSQL ÷ the user's columns as one Parquet file for each chunk,
sorted by key and time, zstd, written by DuckDB. HS2: ÷ a MergeTree of ClickHouse (chDB) of the same
rows. Rows are archived by the product's own writer and maintenance: as whole files, or as they come
live, in ten files a second of event time. Log and ledger are as after `archive_history` and an hour,
where source files are gone: commits before the last checkpoint are deleted, units compacted.
"""

import csv
import gzip
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson

from archiver.chunks import ChunkMaintenance, CutPolicy, LifecyclePolicy
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.ledger import LedgerCompaction
from archiver.times import duration_to_micros, from_micros
from benchmarks.fixtures import folder_bytes, temporary_workspace
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from moirae.config import Settings, load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.runtime.database import connect_database, release_database

_DATA = Path(__file__).parents[1].parent / "shared" / "data"
_START = 1_767_225_600_000_000
_STEP = 30_000_000  # microseconds between two samples of a host
_HOST_COUNT = 500
_SAMPLE_COUNT = 630  # of each host: three chunks of 105,000 rows
_LIVE_SAMPLE_COUNT = 210
_LIVE_FILES_PER_STEP = 10  # of fifty rows each
_BULK_ROWS = 50_000  # of a file
_PAST_END = 1 << 57
_RETENTION = 60.0

_Row = dict[str, Any]


@dataclass(frozen=True)
class _Workload:
    """Rows of a stream in files. `columns`: of the workspace file; `target`: of HS1."""

    name: str
    columns: str
    rows: Callable[[], Iterator[Sequence[_Row]]]
    target: str
    identity: str = ""


def run() -> list[BenchmarkResult]:
    """Measure all cases that there are data for."""
    results: list[BenchmarkResult] = []
    for case in _CASES:
        if case.name in ("planetlab", "bgl") and not _DATA.exists():
            continue
        results += _measure(case)
    return results


def _measure(case: _Workload) -> list[BenchmarkResult]:
    noise = [time_noise_kernel()]
    settings_text = (
        f"home: .moirae\nchunks: {{rows: 105000, age: 24h}}\nstreams:\n  s:\n    columns: {case.columns}\n"
        f"    time: ts\n    key: [host]\n{case.identity}    source: {{files: landing/*.jsonl}}\n"
    )
    with temporary_workspace(settings_text) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        try:
            parts = _archive(case, settings)
            sorted_bytes = _write_sorted(Path(settings.archive), settings, root / "sorted")
            clickhouse_bytes = _write_merge_tree(root / "sorted", root / "clickhouse")
        finally:
            release_database(settings)
    noise.append(time_noise_kernel())
    total = sum(parts.values())
    details = {**{f"{kind}_bytes": size for kind, size in parts.items()}, "sorted": sorted_bytes}
    description = f"bytes of closed chunks ÷ sorted Parquet by DuckDB: {case.name}"
    results = [
        make_result(
            "HS1",
            description,
            [total / sorted_bytes],
            target=case.target,
            noise=noise,
            details=details,
        )
    ]
    if clickhouse_bytes:
        results.append(
            make_result(
                "HS2",
                f"bytes of closed chunks ÷ ClickHouse MergeTree: {case.name}",
                [total / clickhouse_bytes],
                target="≤ 1.0",
                noise=noise,
                details={"clickhouse": clickhouse_bytes},
            )
        )
    return results


def _archive(case: _Workload, settings: Settings) -> dict[str, int]:
    """Archive the rows and close their chunks. Returns bytes by kind."""
    connection = connect_database(settings, "benchmarks")
    root = Path(settings.archive)
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    policy = CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age))
    writer = ArchiveWriter(root, schemas, policy, connection, lambda: None)
    before = _database_bytes(connection)
    for number, rows in enumerate(case.rows()):
        lines = list(map(orjson.dumps, rows))
        unit = SourceUnit("s", f"landing/{number:08}.jsonl", JSONL, partial(iter, lines))
        writer.ingest([unit], _PAST_END)
    writer.advance({"s": _PAST_END})
    maintenance = ChunkMaintenance(root, schemas, _RETENTION, history=0.0)
    lifecycle = LifecyclePolicy(1_000, None, _RETENTION)
    tasks = writer.update_chunk_states(lifecycle, maintenance.requirements, [_PAST_END], lambda: ())
    maintenance.submit(tasks, writer.catalog.settled_places())
    maintenance.wait()
    writer.record_results(maintenance.collect_results())
    maintenance.stop()
    table = writer.tables["s"]
    table.refresh()
    table.checkpoint()
    compaction = LedgerCompaction(connection, timedelta(0))
    while compaction.compact("s", _PAST_END, lambda unit: True, 10_000):
        pass
    closed = [chunk.id for chunk in writer.chunks if chunk.to_ts is not None]
    data = sum(file.bytes for chunk in closed for file in table.data_files(chunk=chunk))
    open_bytes = sum(file.bytes for file in table.data_files()) - data
    assert data > open_bytes
    parts = {
        "data": data,
        "log": folder_bytes(table.data_folder / "_delta_log"),
        "database": _database_bytes(connection) - before,
    }
    connection.close()
    return parts


def _database_bytes(connection: Any) -> int:
    """Of the rows about source units and chunks, without free space."""
    tables = ("units", "chunks", "preparations")
    queries = [f"SELECT coalesce(sum(pg_column_size(t.*)), 0) FROM {name} t" for name in tables]
    return sum(int(connection.execute(query).fetchone()[0]) for query in queries)


def _write_sorted(archive: Path, settings: Settings, folder: Path) -> int:
    """The user's columns of each closed chunk as one file. Returns their bytes."""
    folder.mkdir()
    names = ", ".join(f'"{name}"' for name in settings.streams["s"].columns)
    for chunk in sorted((archive / "streams" / "s").glob("chunk=*")):
        files = sorted(map(str, chunk.glob("c-s*.parquet")))
        if files:
            duckdb.sql(
                f"COPY (SELECT {names} FROM read_parquet({files}, hive_partitioning = false) "
                f"ORDER BY host, ts) TO '{folder}/{chunk.name}.parquet' "
                "(FORMAT parquet, COMPRESSION zstd)"
            )
    return folder_bytes(folder)


def _write_merge_tree(folder: Path, path: Path) -> int:
    """The same rows as a table of ClickHouse. Returns its bytes; 0: chDB is not installed."""
    try:
        chdb: Any = importlib.import_module("chdb.session")
    except ImportError:
        return 0
    session = chdb.Session(str(path))
    session.query("CREATE DATABASE IF NOT EXISTS b ENGINE = Atomic")
    session.query(
        "CREATE TABLE b.t ENGINE = MergeTree ORDER BY (host, ts) SETTINGS allow_nullable_key = 1 "
        f"AS SELECT * FROM file('{folder}/*.parquet', Parquet)"
    )
    session.query("OPTIMIZE TABLE b.t FINAL")
    answer = session.query(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE database = 'b' AND active", "CSV"
    )
    session.close()
    return int(str(answer).strip())


def _synthetic(sample_count: int, files_per_step: int) -> Iterator[Sequence[_Row]]:
    """A metric of 500 hosts, in files of one step, or of parts of it."""
    rng = np.random.default_rng(5)
    rows: list[_Row] = []
    for sample in range(sample_count):
        times = _START + sample * _STEP + np.sort(rng.integers(0, _STEP, _HOST_COUNT))
        if not files_per_step:
            times = np.full(_HOST_COUNT, _START + sample * _STEP)
        values = np.round(50 + 10 * np.sin(sample / 100) + rng.normal(0, 5, _HOST_COUNT), 2)
        hosts = rng.permutation(_HOST_COUNT) if files_per_step else np.arange(_HOST_COUNT)
        rows += [
            {"ts": from_micros(ts).isoformat(), "host": f"host-{host:04}", "cpu": value}
            for ts, host, value in zip(times.tolist(), hosts.tolist(), values.tolist(), strict=True)
        ]
        if files_per_step or len(rows) >= _BULK_ROWS:
            yield from _split(rows, _HOST_COUNT // files_per_step if files_per_step else len(rows))
            rows = []
    yield rows


def _planetlab() -> Iterator[Sequence[_Row]]:
    """A file for each hour of a day."""
    with gzip.open(_DATA / "planetlab" / "cpu_20110303.csv.gz", "rt") as file:
        rows = [{**row, "cpu_pct": int(row["cpu_pct"])} for row in csv.DictReader(file)]
    yield from _split(rows, 50_000)


def _bgl() -> Iterator[Sequence[_Row]]:
    with gzip.open(_DATA / "bgl" / "events.jsonl.gz", "rb") as file:
        rows = [orjson.loads(line) for line in file]
    yield from _split(rows, 50_000)


def _split(rows: Sequence[_Row], size: int) -> Iterator[Sequence[_Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


_METRIC = "{ts: timestamp, host: string, cpu: double}"
_CASES = (
    _Workload("synthetic, bulk", _METRIC, lambda: _synthetic(_SAMPLE_COUNT, 0), "≤ 1.25"),
    _Workload(
        "synthetic, live",
        _METRIC,
        lambda: _synthetic(_LIVE_SAMPLE_COUNT, _LIVE_FILES_PER_STEP),
        "≤ 1.5",
    ),
    _Workload(
        "planetlab",
        "{ts: timestamp, host: string, slice: string, cpu_pct: int}",
        _planetlab,
        "≤ 1.25",
    ),
    _Workload(
        "bgl",
        "{ts: timestamp, host: string, rack: string, type: string, component: string, "
        "level: string, template_id: string, failure_class: string, message: string, "
        "loghub_label: string}",
        _bgl,
        "≤ 1.25",
    ),
)


if __name__ == "__main__":
    for case_result in run() if len(sys.argv) < 2 else _measure(_CASES[int(sys.argv[1])]):
        print(orjson.dumps(case_result.to_json()).decode())
