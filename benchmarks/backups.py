"""BK1, BK2, BK3: backing up and restoring, compared with copying the same bytes.

A workspace with 20 million archived rows, whose database runs, is backed up into an empty folder;
what is in that folder afterwards is copied, and the backup is restored into an empty workspace. The
copy is as durable as a backup: each file and folder is flushed to the disk; it does not compare what
it has written with a digest, which a backup does. All read what was just written, from the page
cache. Then one percent more rows are archived, and backed up into the same folder; then once more
without new rows: what that takes does not depend on the archive, mostly the dump of the database.

Each is measured as the backup process of `moirae up` does it, which runs all the time, and as a
command, whose start takes as long for each archive.

BK2 is the live p99 of a small stream while backups of a workspace with as many rows run one after
another, each into an empty folder.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa

from archiver.chunks import CutPolicy
from archiver.formats import PARQUET
from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.storage.base import fsync_files
from archiver.threads import start_thread
from benchmarks.fixtures import folder_bytes, moirae_up, temporary_workspace
from benchmarks.live_latency import MEASURED_RULE, WORKSPACE, LiveProducer, measure_p99, wait_until
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_seconds, time_noise_kernel
from moirae.backup import BackupOptions, Restoration, back_up, open_repository
from moirae.config import Settings, load_settings_from_environment, stream_schema
from moirae.runtime import database, release_embedded_database
from moirae.runtime.storage import open_storage

_ROWS = int(os.environ.get("MOIRAE_BENCHMARK_ROWS", "20_000_000"))
_BATCH_ROWS = 200_000
_MORE = 0.01  # rows that are archived between two backups, of all
_REPETITIONS = 3
_LIVE_REPETITIONS = 2
_HOSTS = 200
_YEAR = 365 * 86_400_000_000  # microseconds: the rows are of the last one
_WARM_UP_SECONDS = 15.0
_MEASURED_SECONDS = 30.0


def run() -> list[BenchmarkResult]:
    """Measure copies, then live latency."""
    with _create_workspace() as root:
        results = _measure_copies(root)
        return [*results, _measure_live(root)]


@contextmanager
def _create_workspace() -> Iterator[Path]:
    with temporary_workspace(WORKSPACE.replace("20_000,", "500_000,"), MEASURED_RULE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        _archive(settings, 0, _ROWS)
        database.release_database(settings)
        yield root


def _archive(settings: Settings, first: int, row_count: int) -> None:
    """Archive rows from number `first` on, in batches."""
    with database.connect_database(settings, "benchmark") as connection:
        schemas = [stream_schema(name, item) for name, item in settings.streams.items()]
        policy = CutPolicy(settings.chunks.rows, _YEAR)
        writer = ArchiveWriter(open_storage(settings), schemas, policy, connection, lambda: None)
        for start in range(first, first + row_count, _BATCH_ROWS):
            rows = _make_rows(start, min(_BATCH_ROWS, first + row_count - start))
            unit = SourceUnit("past", f"rows-{start}", PARQUET, partial(iter, [rows]))
            writer.ingest([unit], int(time.time() * 1e6))


def _make_rows(first: int, row_count: int) -> pa.Table:
    rng = np.random.default_rng(first)
    interval = _YEAR // (2 * _ROWS)
    end = int(np.datetime64("now", "us").astype(np.int64)) - _YEAR // 4
    times = end - _YEAR // 2 + np.arange(first, first + row_count) * interval
    hosts = pa.array([f"h{number}" for number in range(_HOSTS)])
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "host": hosts.take(pa.array(rng.integers(0, _HOSTS, row_count))),
            "v": pa.array(np.round(rng.uniform(0, 100, row_count), 2)),
        }
    )


def _run_command(root: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", str(root / "moirae.yaml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise AssertionError(result.stderr[-2000:])


def _time_in_sync(step: Callable[[], object]) -> float:
    """The seconds of a step, with what it has written on the disk."""
    os.sync()

    def run_in_sync() -> None:
        step()
        os.sync()

    return measure_seconds(run_in_sync)


def _copy_durably(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    files = list(filter(Path.is_file, target.rglob("*")))
    fsync_files(files, [target, *filter(Path.is_dir, target.rglob("*"))])


def _back_up(settings: Settings, folder: Path) -> None:
    back_up(settings, open_repository(str(folder), None), BackupOptions())


def _restore(backups: Path, target: Path) -> None:
    repository = open_repository(str(backups), None)
    restoration = Restoration(repository, repository.get(None))
    files = restoration.restore_workspace_files(target)
    restoration.restore(load_settings_from_environment(files.workspace_file))


def _measure_copies(root: Path) -> list[BenchmarkResult]:
    settings = load_settings_from_environment(root / "moirae.yaml")
    noise: list[float] = []
    seconds: dict[str, list[float]] = defaultdict(list)
    size = 0
    added = int(_ROWS * _MORE)
    rows = count(_ROWS, added)
    names = ("backups", "copy", "restored", "backups-command", "restored-command")
    for repetition in range(_REPETITIONS):
        folders = {name: root / f"{name}-{repetition}" for name in names}
        noise.append(time_noise_kernel())
        for name in ("restored", "restored-command"):
            folders[name].mkdir()
            folders[name].chmod(0o755)
        backups, copy = folders["backups"], folders["copy"]
        by_command = partial(_run_command, root, "backup", str(folders["backups-command"]))
        database.database_dsn(settings)  # it runs, as beside the processes of a workspace
        steps: dict[str, Callable[[], object]] = {
            "backup": partial(_back_up, settings, backups),
            "copy": partial(_copy_durably, backups, copy),
            "backup_command": by_command,
            "restore": partial(_restore, copy, folders["restored"]),
            "restore_command": partial(
                _run_command, folders["restored-command"], "restore", str(copy)
            ),
            "more_rows": lambda: _archive(settings, next(rows), added),
            "second": partial(_back_up, settings, backups),
            "nothing_new": partial(_back_up, settings, backups),
            "second_command": by_command,
        }
        for name, step in steps.items():
            seconds[name].append(_time_in_sync(step))
            if name == "backup":
                size = folder_bytes(backups)
        database.release_database(settings)
        for name in ("restored", "restored-command"):
            release_embedded_database(folders[name] / ".moirae")
        for folder in folders.values():
            shutil.rmtree(folder)
        latest = {name: f"{values[-1]:.2f} s" for name, values in seconds.items()}
        print(f"{repetition + 1}/{_REPETITIONS} {size / 1e6:,.0f} MB {latest}", file=sys.stderr)
    medians = {f"{name}_s": rounded_median(values, 2) for name, values in seconds.items()}
    details = {**medians, "rows": _ROWS, "megabytes": round(size / 1e6)}

    def compare(goal: str, description: str, step: str, target: str) -> BenchmarkResult:
        ratios = [
            value / copied for value, copied in zip(seconds[step], seconds["copy"], strict=True)
        ]
        return make_result(goal, description, ratios, target=target, noise=noise, details=details)

    after_rows = "after 1 % more rows ÷ copying all bytes"
    return [
        compare("BK1", "backup ÷ copying the same bytes", "backup", "≤ 1.3"),
        compare("BK1", "backup by command ÷ copying the same bytes", "backup_command", "≤ 1.3"),
        compare("BK1", f"backup {after_rows}", "second", "≤ 0.05"),
        compare("BK1", f"backup by command {after_rows}", "second_command", "≤ 0.05"),
        compare("BK3", "restore ÷ copying the same bytes", "restore", "≤ 1.5"),
        compare("BK3", "restore by command ÷ copying the same bytes", "restore_command", "≤ 1.5"),
    ]


def _measure_live(root: Path) -> BenchmarkResult:
    settings = load_settings_from_environment(root / "moirae.yaml")
    noise: list[float] = []
    alone: list[float] = []
    during_backups: list[float] = []
    (root / "landing" / "cpu").mkdir(parents=True)
    producer = LiveProducer(root / "landing" / "cpu", 1, lambda rows: None)
    with (
        database.connect_database(settings, "benchmark") as connection,
        moirae_up(settings, root / "log"),
    ):
        producer.start()
        wait_until(connection, "SELECT EXISTS (SELECT FROM alerts WHERE NOT past)", 300.0)
        measure_p99(connection, "bench/High", _WARM_UP_SECONDS)
        try:
            for repetition in range(_LIVE_REPETITIONS):
                noise.append(time_noise_kernel())
                alone.append(measure_p99(connection, "bench/High", _MEASURED_SECONDS))
                with _repeated_backups(root):
                    during_backups.append(measure_p99(connection, "bench/High", _MEASURED_SECONDS))
                print(
                    f"{repetition + 1}/{_LIVE_REPETITIONS} p99 alone {alone[-1]:.3f} s, beside "
                    f"backups {during_backups[-1]:.3f} s",
                    file=sys.stderr,
                )
        finally:
            producer.stop()
    return make_result(
        "BK2",
        "live p99 latency beside backups ÷ without",
        [loaded / idle for loaded, idle in zip(during_backups, alone, strict=True)],
        target="≤ 1.1",
        noise=noise,
        details={
            "alone_p99_s": rounded_median(alone, 3),
            "beside_p99_s": rounded_median(during_backups, 3),
            "rows": _ROWS,
        },
    )


@contextmanager
def _repeated_backups(root: Path) -> Iterator[None]:
    """One backup after another, until the end."""
    stop = threading.Event()

    def back_up() -> None:
        while not stop.is_set():
            folder = root / f"backups-{uuid4().hex}"
            _run_command(root, "backup", str(folder))
            shutil.rmtree(folder)

    running = start_thread(back_up, "backups")
    try:
        yield
    finally:
        stop.set()
        running.result()
