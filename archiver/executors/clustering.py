"""Clustering of large chunks in tasks: they read and write the files, and this process commits."""

from collections.abc import Sequence
from functools import partial

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from archiver.delta import NOTHING_SETTLED, DataFile, SettledPlaces, TableFiles
from archiver.errors import TaskLost
from archiver.executors.jobs import Jobs

_LOG = structlog.get_logger()

MIN_CLUSTERED_ROWS = 50_000
"""Rows from which a task clusters files: sooner than this process, which also has live work."""


class TaskClustering:
    """Rewrites files as one, in a task if they have many rows. See `StreamTable.cluster`.

    What a task cannot do is done in this process: a task may have less memory.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def __call__(
        self,
        files: TableFiles,
        chunk: int,
        members: Sequence[DataFile],
        settled_places: SettledPlaces = NOTHING_SETTLED,
    ) -> DataFile:
        if sum(file.rows for file in members) < MIN_CLUSTERED_ROWS:
            return files.write_compact(chunk, members, settled_places)
        try:
            write = partial(files.write_compact, chunk, settled_places=settled_places)
            (compact_file,) = self._jobs.map(write, [members])
        except (TaskLost, PySparkException, Py4JError) as error:
            _LOG.warning(
                "chunk is clustered without executors",
                action="clustering_task_failed",
                chunk=chunk,
                error=(str(error).strip().splitlines() or [type(error).__name__])[0],
            )
            return files.write_compact(chunk, members, settled_places)
        return compact_file
