"""Temporary folders, workspaces, processes and Spark sessions of benchmarks."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from archiver.spark import start_session
from moirae.config import Settings

HERE = Path(__file__).parents[1]
"""The repository."""

_STOP_TIMEOUT = 60.0  # seconds


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder, deleted at the end."""
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def temporary_workspace(settings: str, rules: str | None = None) -> Iterator[Path]:
    """A folder with `moirae.yaml` and, if given, `rules.yaml`, deleted at the end."""
    with temporary_folder() as root:
        root.chmod(0o755)  # PostgreSQL may run as another user
        (root / "moirae.yaml").write_text(settings)
        if rules is not None:
            (root / "rules.yaml").write_text(rules)
        yield root


@contextmanager
def moirae_up(settings: Settings, log: Path) -> Iterator[None]:
    """Run `moirae up` on a workspace, with its standard error in a log file."""
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(settings.file)]
    with log.open("wb") as log_file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log_file)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_TIMEOUT)


def workspace_processes(settings: Settings) -> list[psutil.Process]:
    """The processes that this one has started, and those of the embedded database."""
    home = Path(settings.home)
    pids = [int((home / "postgresql.launcher").read_text())]
    pids.append(int((home / "postgresql" / "postmaster.pid").read_text().split()[0]))
    roots = [psutil.Process(pid) for pid in pids]
    processes = set(psutil.Process().children(recursive=True))
    for root in roots:
        processes |= {root, *root.children(recursive=True)}
    return list(processes)


def processor_seconds(processes: Iterable[psutil.Process]) -> float:
    """The processor time of processes and of their children that have ended."""
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


@contextmanager
def spark_session(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """The Spark session of this process; `conf` overrides the product's settings."""
    with temporary_folder() as warehouse:
        session = start_session("benchmark", "local[2]", warehouse, conf)
        try:
            yield session
        finally:
            session.stop()


def folder_bytes(folder: Path) -> int:
    """The size of all files below a folder."""
    files = filter(Path.is_file, folder.rglob("*"))
    return sum(file.stat().st_size for file in files)


@contextmanager
def earlier_version(commit: str) -> Iterator[Path]:
    """The installation at a commit, with these benchmarks; deleted at the end."""
    with temporary_folder() as root:
        root.chmod(0o755)  # PostgreSQL may run as another user
        folder = root / "base"
        command = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*command, "add", "-q", "--detach", str(folder), commit], check=True)
        try:
            shutil.rmtree(folder / "benchmarks")
            shutil.copytree(HERE / "benchmarks", folder / "benchmarks")
            yield folder
        finally:
            subprocess.run([*command, "remove", "--force", str(folder)], check=True)


def run_benchmark_in(folder: Path, name: str, *arguments: str) -> list[str]:
    """What a module of benchmarks prints in the installation in a folder, as lines."""
    process = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return process.stdout.splitlines()
