"""Spark sessions from locally installed jars, started without network access."""

from archiver.spark.session import (
    NUMBER_SOURCE,
    jvm_process,
    open_session,
    session_on_demand,
    start_session,
)
from archiver.spark.vacuum import vacuum_table

__all__ = [
    "NUMBER_SOURCE",
    "jvm_process",
    "open_session",
    "session_on_demand",
    "start_session",
    "vacuum_table",
]
