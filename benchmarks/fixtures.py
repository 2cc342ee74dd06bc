"""Temporary folders, workspaces, processes and Spark sessions of benchmarks."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from archiver.spark import start_session
from moirae.config import Settings

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
