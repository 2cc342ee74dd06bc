"""The process from which Spark forks Python workers: it has imported what tasks need.

Workers share its memory and start in milliseconds (`spark.python.daemon.module`).
"""

import gc
import importlib

from pyspark.daemon import manager

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

if __name__ == "__main__":
    manager()
