"""Where benchmarks work: a folder and a Spark session, gone at the end."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from archiver.spark import start_session


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder."""
    root = Path(tempfile.mkdtemp(prefix="moirae-bench-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def spark_session(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """The session of this process; `conf` goes over the product's settings."""
    with temporary_folder() as warehouse:
        session = start_session("benchmark", "local[2]", warehouse, conf)
        try:
            yield session
        finally:
            session.stop()
