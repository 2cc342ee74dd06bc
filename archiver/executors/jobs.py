"""Spark jobs over items and over the parts that tasks keep for the next job.

A task returns an `ArchiverError` or an error of the operating system as a value: Spark would pass on
its text only.
"""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import structlog
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from archiver.errors import ArchiverError, TaskLost
from archiver.spark import has_stopped
from archiver.threads import start_daemon

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Of a part that a task keeps, by the position of its task.
PartFunction = Callable[[int, Iterable[Any]], _Result]
SplitFunction = Callable[[int, Iterable[Any]], Iterable[tuple[Any, Any]]]


class Parts(Protocol):
    """What the tasks of a job have kept."""

    def map(self, function: PartFunction[_Result]) -> list[_Result]:
        """The result of a function of each task's parts, in the order of the tasks."""

    def shuffle(
        self,
        split: SplitFunction,
        keys: Sequence[Any],
        combine: Callable[[Any, Iterable[Any]], _Result],
    ) -> list[_Result]:
        """`split` each task's parts into pairs of a key and a value, `combine` the values of a key.

        `keys`: all keys. Returns the results of the keys that have values, in any order.
        """

    def release(self) -> None:
        """Free what the tasks have kept."""


class Jobs(Protocol):
    """Runs functions on executors."""

    @property
    def cores(self) -> int:
        """Number of tasks that run at a time."""

    @property
    def executor_count(self) -> int:
        """Number of processes that run tasks."""

    @property
    def task_count(self) -> int:
        """Number of tasks started so far."""

    @property
    def is_warm(self) -> bool:
        """Whether worker processes have started."""

    def warm_up(self) -> None:
        """Start worker processes in the background, unless they were started."""

    def map(self, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """The result of a function of each item; one task for each."""

    def keep(self, function: Callable[[_Item], Iterator[Any]], items: Sequence[_Item]) -> Parts:
        """Prepare a job with one task for each item, which keeps what the function yields."""

    def keep_frame(
        self, function: Callable[[Iterable[pa.RecordBatch]], Iterator[Any]], frame: DataFrame
    ) -> Parts:
        """Like `keep`, of the rows of each part of a data frame; one task for each."""


@dataclass(frozen=True)
class _Failure:
    """The error of a task."""

    error: Exception


_CAUGHT = (ArchiverError, OSError)

_LOG = structlog.get_logger()

# A local master does not repeat tasks. A job is repeated for the worker processes that died by no
# fault of it.
_MAX_ATTEMPTS = 3
_DEAD_WORKER = ("Python worker exited unexpectedly", "java.io.EOFException")


class SparkJobs:
    """Jobs of one Spark application."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._task_count = 0
        self._warm_up_lock = threading.Lock()
        self._is_warm = False

    @property
    def cores(self) -> int:
        return self._context.defaultParallelism

    @property
    def executor_count(self) -> int:
        tracker = self._context._jsc.sc().statusTracker()
        # The driver is one of them, and the only one with a local master.
        return max(1, len(tracker.getExecutorInfos()) - 1)

    @property
    def task_count(self) -> int:
        return self._task_count

    @property
    def is_warm(self) -> bool:
        return self._is_warm

    def warm_up(self) -> None:
        if self._warm_up_lock.acquire(blocking=False):
            start_daemon(self._start_workers, "warm up")

    def _start_workers(self) -> None:
        """Run a job like those of a batch: its tasks have two workers each."""
        try:
            parts = self.keep(_yield_item, range(self.cores))
            parts.map(_count_items)
            parts.release()
            self._is_warm = True
        except Exception as error:
            if has_stopped(self._context):
                return
            reason = str(error).partition("\n")[0]
            _LOG.warning("workers were not started", action="warm_up_failed", error=reason)

    def add_tasks(self, tasks: int) -> None:
        """Count tasks that are started."""
        self._task_count += tasks

    def map(self, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        self.add_tasks(len(items))
        tasks = self._context.parallelize(items, len(items))
        return _collect(tasks.map(partial(_call, function)))

    def keep(
        self, function: Callable[[_Item], Iterator[Any]], items: Sequence[_Item]
    ) -> "SparkParts":
        tasks = self._context.parallelize(items, len(items))
        parts = tasks.mapPartitions(partial(_yield_all, function))
        parts.persist(StorageLevel.MEMORY_AND_DISK)
        return SparkParts(self, parts, len(items))

    def keep_frame(
        self, function: Callable[[Iterable[pa.RecordBatch]], Iterator[Any]], frame: DataFrame
    ) -> "SparkParts":
        packed = frame.mapInArrow(partial(_pack_results, function), "content binary")
        parts = packed.rdd.map(_unpack_result)
        parts.persist(StorageLevel.MEMORY_AND_DISK)
        return SparkParts(self, parts, parts.getNumPartitions())


class SparkParts:
    """Parts in the storage of executors; a lost one is computed again."""

    def __init__(self, jobs: SparkJobs, parts: "RDD[Any]", task_count: int) -> None:
        self._jobs = jobs
        self._parts = parts
        self._task_count = task_count

    def map(self, function: PartFunction[_Result]) -> list[_Result]:
        self._jobs.add_tasks(self._task_count)
        results = self._parts.mapPartitionsWithIndex(partial(_call_on_part, function))
        return _collect(results)

    def shuffle(
        self,
        split: SplitFunction,
        keys: Sequence[Any],
        combine: Callable[[Any, Iterable[Any]], _Result],
    ) -> list[_Result]:
        self._jobs.add_tasks(self._task_count + len(keys))
        positions = {key: position for position, key in enumerate(keys)}
        pairs = self._parts.mapPartitionsWithIndex(partial(_split_part, split, positions))
        by_key = pairs.partitionBy(len(keys), int)
        results = by_key.mapPartitionsWithIndex(partial(_combine_pairs, combine, keys))
        return _collect(results)

    def release(self) -> None:
        self._parts.unpersist()


def _yield_item(item: int) -> Iterator[int]:
    yield item


def _count_items(_task: int, parts: Iterable[int]) -> int:
    return len(list(parts))


def _pack_results(
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[Any]],
    tables: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Pickled results: Arrow is how data frames reach Python fast, and rows of them leave it."""
    for result in _yield_all(function, [tables]):
        content = pa.array([pickle.dumps(result)], pa.binary())
        yield pa.RecordBatch.from_arrays([content], names=["content"])


def _unpack_result(row: Any) -> Any:
    return pickle.loads(row.content)


def _call(function: Callable[[_Item], _Result], item: _Item) -> _Result | _Failure:
    try:
        return function(item)
    except _CAUGHT as error:
        return _Failure(error)


def _yield_all(function: Callable[[_Item], Iterator[Any]], items: Iterable[_Item]) -> Iterator[Any]:
    try:
        for item in items:
            yield from function(item)
    except _CAUGHT as error:
        yield _Failure(error)


def _call_on_part(
    function: PartFunction[_Result], task: int, parts: Iterable[Any]
) -> Iterator[_Result | _Failure]:
    try:
        yield function(task, _without_failures(parts))
    except _CAUGHT as error:
        yield _Failure(error)
    for _ in parts:  # a worker that leaves input unread is not used again
        pass


def _split_part(
    split: SplitFunction, positions: dict[Any, int], task: int, parts: Iterable[Any]
) -> Iterator[tuple[int, Any]]:
    try:
        for key, value in split(task, _without_failures(parts)):
            yield positions[key], value
    except _CAUGHT as error:
        yield 0, _Failure(error)


def _combine_pairs(
    combine: Callable[[Any, Iterable[Any]], _Result],
    keys: Sequence[Any],
    position: int,
    pairs: Iterable[tuple[int, Any]],
) -> Iterator[_Result | _Failure]:
    values = [value for _, value in pairs]
    if values:
        try:
            yield combine(keys[position], _without_failures(values))
        except _CAUGHT as error:
            yield _Failure(error)


def _without_failures(values: Iterable[_Item]) -> Iterator[_Item]:
    """The values; raises the error of the task that failed to compute one."""
    for value in values:
        if isinstance(value, _Failure):
            raise value.error
        yield value


def _collect(results: "RDD[Any]") -> list[Any]:
    """The results of a job. Raises the error of a task, or `TaskLost`."""
    for _ in range(_MAX_ATTEMPTS):
        try:
            return _raise_failure(results.collect())
        except (Py4JJavaError, PySparkException) as error:
            if not any(text in str(error) for text in _DEAD_WORKER):
                raise
    raise TaskLost


def _raise_failure(results: Sequence[_Result | _Failure]) -> list[_Result]:
    checked: list[_Result] = []
    for result in results:
        if isinstance(result, _Failure):
            raise result.error
        checked.append(result)
    return checked
