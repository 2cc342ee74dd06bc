"""Work on Spark executors: tasks decode, compare, write and cluster; the driver commits."""

from archiver.executors.clustering import TaskClustering
from archiver.executors.grouping import choose_task_count, divide_evenly, divide_times
from archiver.executors.ingest import ExecutorIngest
from archiver.executors.jobs import Jobs, Parts, SparkJobs

__all__ = [
    "ExecutorIngest",
    "Jobs",
    "Parts",
    "SparkJobs",
    "TaskClustering",
    "choose_task_count",
    "divide_evenly",
    "divide_times",
]
