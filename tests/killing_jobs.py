"""Jobs of Spark of which one task is killed."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from archiver.executors import SparkJobs


class KillingJobs:
    """Jobs of which the first ends the process of one of its tasks."""

    def __init__(self, jobs: SparkJobs, marker: Path) -> None:
        self._jobs = jobs
        self._marker = marker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def keep(self, function: Callable[[Any], Iterator[Any]], items: Sequence[Any]) -> Any:
        return self._jobs.keep(partial(kill_once, self._marker, function), items)


def kill_once(marker: Path, function: Callable[[Any], Iterator[Any]], item: Any) -> Iterator[Any]:
    """The results of a function; the first call ends its process in the midst of them."""
    results = function(item)
    yield next(results)
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        yield from results
    else:
        os.kill(os.getpid(), signal.SIGKILL)
