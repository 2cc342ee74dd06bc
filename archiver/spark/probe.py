"""What tasks find on executors, where Moirae may be missing: functions are sent by value."""

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark import BarrierTaskContext, SparkContext
from pyspark import cloudpickle as _cloudpickle

_REGISTER_INTERVAL = 0.2  # seconds
_MAX_TEXT = 300  # characters of an error


@dataclass(frozen=True)
class ExecutorProbe:
    """What one task has found on its executor, at an address.

    `clock`: Unix seconds. `environment`: versions by name. `result`: of the function. `error`: why
    Moirae's code did not run.
    """

    executor: str
    python: str
    clock: float
    environment: Mapping[str, str] = field(default_factory=dict)
    result: Any = None
    error: str = ""


def has_stopped(context: SparkContext) -> bool:
    """Whether the application has ended, or its JVM."""
    java_context: Any = context._jsc
    try:
        return java_context is None or bool(java_context.sc().isStopped())
    except (Py4JError, OSError):
        return True


def count_task_slots(context: SparkContext) -> int:
    """How many tasks the executors that have registered can run at once."""
    scala_context: Any = context._jsc.sc()
    profile = scala_context.resourceProfileManager().defaultResourceProfile()
    # `defaultParallelism` is at least 2, or a setting: a barrier stage would wait for cores.
    return int(scala_context.maxNumConcurrentTasks(profile))


def await_executors(context: SparkContext, cores: int, timeout: float) -> int:
    """Wait until executors have so many cores, or the time is over.

    Returns how many tasks they can run at once.
    """
    deadline = time.monotonic() + timeout
    while True:
        available = count_task_slots(context)
        if available >= cores or time.monotonic() > deadline:
            return available
        time.sleep(_REGISTER_INTERVAL)


def probe_executors(
    context: SparkContext, cores: int, function: Callable[[], Any]
) -> list[ExecutorProbe]:
    """Run a function on so many cores at the same time."""
    pickler: Any = _cloudpickle
    this_module = sys.modules[__name__]
    content = pickler.dumps(function)

    def probe(_numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        yield _probe(content)

    pickler.register_pickle_by_value(this_module)
    try:
        tasks = context.parallelize(range(cores), cores).barrier().mapPartitions(probe)
        answers: Sequence[dict[str, Any]] = tasks.collect()
    finally:
        pickler.unregister_pickle_by_value(this_module)
    return [ExecutorProbe(**answer) for answer in answers]


def _probe(content: bytes) -> dict[str, Any]:
    """Runs in a task. `content`: a pickled function."""
    context = BarrierTaskContext.get()
    address = context.getTaskInfos()[context.partitionId()].address
    context.barrier()
    answer: dict[str, Any] = {
        "executor": f"{address} ({os.uname().nodename})",
        "python": sys.executable,
        "clock": time.time(),
    }
    try:
        from archiver.spark.environment import describe_environment

        answer["environment"] = dict(describe_environment())
        answer["result"] = pickle.loads(content)()
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}"[:_MAX_TEXT]
    return answer
