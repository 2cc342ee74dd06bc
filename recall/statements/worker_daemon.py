"""The process from which Spark forks Python workers: it has imported what tasks need.

Workers share its memory and start in milliseconds (`spark.python.daemon.module`).
"""

import gc
import importlib
import sys
from typing import IO, Any

from pyspark.daemon import manager

from archiver.spark import find_mismatch

_TASK_MODULES = (
    "archiver.executors.small_batch",
    "archiver.executors.tasks.decode",
    "archiver.executors.tasks.identities",
    "archiver.executors.tasks.write",
    "recall.statements.part_task",
)

for module in _TASK_MODULES:
    importlib.import_module(module)

# Spark collects garbage after each task: 47 ms of processor time for what was imported here.
gc.collect()
gc.freeze()


def _refuse_tasks(reason: str) -> None:
    """Let each worker fail its task for a reason, which the driver is told."""
    from pyspark import worker
    from pyspark.util import handle_worker_exception

    def fail(_input: IO[Any], output: IO[Any]) -> None:
        handle_worker_exception(RuntimeError(reason), output, hide_traceback=True)
        sys.exit(-1)

    worker.main = fail


if __name__ == "__main__":
    mismatch = find_mismatch()
    if mismatch is not None:
        _refuse_tasks(mismatch)
    manager()
