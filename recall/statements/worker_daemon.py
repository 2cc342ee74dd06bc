"""The process from which Spark forks Python workers: it has imported what tasks need.

Workers share its memory and start in milliseconds (`spark.python.daemon.module`).
"""

from pyspark.daemon import manager

import recall.statements.part_task  # noqa: F401

if __name__ == "__main__":
    manager()
