"""Ingest on Spark executors: tasks decode, compare and write; the driver commits."""

from archiver.executors.grouping import divide_times
from archiver.executors.ingest import ExecutorIngest
from archiver.executors.jobs import Jobs, Parts, SparkJobs

__all__ = [
    "ExecutorIngest",
    "Jobs",
    "Parts",
    "SparkJobs",
    "divide_times",
]
