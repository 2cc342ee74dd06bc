"""A limit on the CPU time that Spark takes to analyse one query.

Spark evaluates some constants while it analyses, and nothing can stop it then. A thread that takes
too long is abandoned and given the lowest priority.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from archiver.spark import jvm_process
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
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            java.java.lang.Thread.currentThread().setName(name)
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, daemon=True, name=name)
    started = time.monotonic()
    thread.start()
    thread.join(min(_POLL_INTERVAL, cpu_limit))
    while thread.is_alive():
        elapsed = time.monotonic() - started
        cpu_seconds = _cpu_seconds(name)
        used_seconds = elapsed
        if cpu_seconds is not None:
            used_seconds = max(cpu_seconds, elapsed / _WALL_CLOCK_FACTOR)
        if used_seconds >= cpu_limit:
            _lower_priority(name)
            raise QueryRejected(f"analysing the query takes more than {cpu_limit:.0f} s")
        thread.join(_POLL_INTERVAL)
    return future.result()


def _jvm_task_directory() -> Path | None:
    """Linux's directory of the threads of the JVM; None without a JVM, and on other systems."""
    process = jvm_process()
    if process is None:
        return None
    directory = Path(f"/proc/{process.pid}/task")
    if not directory.is_dir():
        return None
    return directory


def _find_jvm_thread(name: str) -> Path | None:
    """Linux's directory of the JVM's thread of this name."""
    directory = _jvm_task_directory()
    if directory is None:
        return None
    for task in directory.glob("*"):
        with suppress(OSError):  # threads end at any time
            if (task / "comm").read_text().strip() == name:
                return task
    return None


def _cpu_seconds(name: str) -> float | None:
    """The CPU time of a JVM thread, 0 if there is none; None if the system does not report it."""
    if _jvm_task_directory() is None:
        return None
    task = _find_jvm_thread(name)
    if task is None:
        return 0.0
    with suppress(OSError):
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        user, system = fields[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _lower_priority(name: str) -> None:
    """Let all other threads go first, where threads have priorities."""
    task = _find_jvm_thread(name)
    if task is not None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(task.name), _LOWEST_NICENESS)
