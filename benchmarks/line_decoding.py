"""Decoding line by line instead of in blocks, in this process and in Python workers of Spark.

As a module of its own (`spark.python.daemon.module`) it is the process from which Spark forks
workers (`WORKER_CONF`).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from archiver.ingest.decoding import block_decoder

WORKER_CONF = {
    "spark.python.daemon.module": "benchmarks.line_decoding",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
}


@contextmanager
def decode_line_by_line() -> Iterator[None]:
    """No block is large enough for the readers of blocks."""
    with patch.object(block_decoder, "_MIN_BLOCK_BYTES", sys.maxsize):
        yield


if __name__ == "__main__":
    from pyspark.daemon import manager

    import recall.statements.worker_daemon  # noqa: F401  # imports what tasks need

    with decode_line_by_line():
        manager()
