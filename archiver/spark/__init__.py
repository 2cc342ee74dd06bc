"""Spark as this installation runs it: started from files that set-up fetched, without a network."""

from archiver.spark.session import jvm_process, start_session

__all__ = [
    "jvm_process",
    "start_session",
]
