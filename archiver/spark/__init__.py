"""Spark sessions from locally installed jars, started without network access."""

from archiver.spark.environment import (
    MISMATCH,
    compare_environments,
    describe_environment,
    find_mismatch,
)
from archiver.spark.probe import (
    ExecutorProbe,
    await_executors,
    count_task_slots,
    has_stopped,
    probe_executors,
)
from archiver.spark.session import (
    NUMBER_SOURCE,
    jvm_process,
    open_session,
    sees_driver_files,
    session_on_demand,
    start_session,
)
from archiver.spark.vacuum import vacuum_table

__all__ = [
    "ExecutorProbe",
    "MISMATCH",
    "NUMBER_SOURCE",
    "await_executors",
    "compare_environments",
    "count_task_slots",
    "describe_environment",
    "find_mismatch",
    "has_stopped",
    "jvm_process",
    "open_session",
    "probe_executors",
    "sees_driver_files",
    "session_on_demand",
    "start_session",
    "vacuum_table",
]
