"""Jobs of executors, run in this process: what tasks get and return is pickled, as Spark does."""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

# A worker of Spark runs one task at a time, with engines of its process. So does this process, also
# if two threads start a job each.
_WORKER = threading.Lock()


def copy(value: Any) -> Any:
    """A value as another process receives it."""
    return pickle.loads(pickle.dumps(value))


class InlineJobs:
    """Runs tasks one after another, as if there were so many cores."""

    def __init__(self, cores: int = 2) -> None:
        self.cores = cores
        self.executor_count = 1
        self.task_count = 0
        self.shuffle_count = 0
        self.map_count = 0
        self.is_warm = True

    def warm_up(self) -> None:
        """There are no workers."""

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.task_count += len(items)
        results = []
        for item in items:
            with _WORKER:
                results.append(copy(copy(function)(copy(item))))
        return results

    def keep(self, function: Callable[[Any], Iterator[Any]], items: Sequence[Any]) -> "InlineParts":
        task = copy(function)
        return InlineParts(self, [[copy(part) for part in task(copy(item))] for item in items])

    def keep_frame(
        self, function: Callable[[Iterable[Any]], Iterator[Any]], frame: Sequence[Any]
    ) -> "InlineParts":
        """`frame`: record batches by part."""
        task = copy(function)
        return InlineParts(self, [[copy(part) for part in task(tables)] for tables in frame])


class InlineParts:
    """Parts in memory."""

    def __init__(self, jobs: InlineJobs, parts: Sequence[Sequence[Any]]) -> None:
        self._jobs = jobs
        self._parts = parts

    def map(self, function: Callable[[int, Iterable[Any]], Any]) -> list[Any]:
        self._jobs.map_count += 1
        task = copy(function)
        return [copy(task(number, iter(parts))) for number, parts in enumerate(self._parts)]

    def shuffle(
        self,
        split: Callable[[int, Iterable[Any]], Iterable[tuple[Any, Any]]],
        keys: Sequence[Any],
        combine: Callable[[Any, Iterable[Any]], Any],
    ) -> list[Any]:
        self._jobs.shuffle_count += 1
        values: dict[Any, list[Any]] = {key: [] for key in keys}
        for number, parts in enumerate(self._parts):
            for key, value in copy(split)(number, iter(parts)):
                values[key].append(copy(value))
        task = copy(combine)
        return [copy(task(key, reversed(values[key]))) for key in keys if values[key]]

    def release(self) -> None:
        self._parts = []
