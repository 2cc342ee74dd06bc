"""A limit on the CPU time that Spark takes to analyse one query.

Spark evaluates some constants while it analyses, and nothing can stop it then. A thread that takes
too long is abandoned and given the lowest priority.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

import psutil
from pyspark.sql import SparkSession

from archiver.spark import jvm_process
from archiver.threads import start_thread
from recall.errors import QueryRejected

# On a busy machine a thread may take this many times its CPU limit in real time.
_WALL_CLOCK_FACTOR = 10.0
_POLL_INTERVAL = 0.1  # seconds
_LOWEST_NICENESS = 19

_THREAD_NUMBERS = count()

_Result = TypeVar("_Result")


def run_with_limit(work: Callable[[], _Result], session: SparkSession, cpu_limit: float) -> _Result:
    """What `work` returns or raises, if it calls only the JVM of the session.

    Raises `QueryRejected` if it takes more than `cpu_limit` seconds of CPU time; or of real time,
    where the system does not report the CPU time of threads.
    """
    # Linux keeps 15 characters of a thread's name.
    name = f"sandbox {next(_THREAD_NUMBERS)}"
    java: Any = session._jvm

    def run() -> _Result:
        java.java.lang.Thread.currentThread().setName(name)
        return work()

    started = time.monotonic()
    future = start_thread(run, name)
    wait([future], min(_POLL_INTERVAL, cpu_limit))
    while not future.done():
        elapsed = time.monotonic() - started
        cpu_seconds = _cpu_seconds(name)
        used_seconds = elapsed
        if cpu_seconds is not None:
            used_seconds = max(cpu_seconds, elapsed / _WALL_CLOCK_FACTOR)
        if used_seconds >= cpu_limit:
            _lower_priority(name)
            raise QueryRejected(f"analysis of the query takes more than {cpu_limit:.0f} s")
        wait([future], _POLL_INTERVAL)
    return future.result()


def _find_jvm_thread(name: str) -> Any:
    """psutil's record of the JVM's thread of this name: ID and CPU time; None if there is none."""
    process = jvm_process()
    if process is None or not psutil.LINUX:  # elsewhere threads have no names
        return None
    with suppress(psutil.Error):
        for thread in reversed(psutil.Process(process.pid).threads()):  # probably a new one
            with suppress(psutil.Error):  # threads end at any time
                if psutil.Process(thread.id).name() == name:
                    return thread
    return None


def _cpu_seconds(name: str) -> float | None:
    """The CPU time of a JVM thread, 0 if there is none; None if the system does not report it."""
    if jvm_process() is None or not psutil.LINUX:
        return None
    thread = _find_jvm_thread(name)
    return 0.0 if thread is None else float(thread.user_time + thread.system_time)


def _lower_priority(name: str) -> None:
    """Let all other threads go first, where threads have priorities."""
    thread = _find_jvm_thread(name)
    if thread is not None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread.id, _LOWEST_NICENESS)
