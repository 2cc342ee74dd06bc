"""Clustering in a task gives the files and identities of clustering in this process."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from archiver.delta.table import StreamTable
from archiver.errors import TaskLost
from archiver.executors import clustering
from archiver.executors.clustering import TaskClustering
from archiver.executors.jobs import Jobs, SparkJobs
from tests.inline_jobs import InlineJobs
from tests.unit.archiver.delta.test_table import SCHEMA, rows


def fill(folder: Path) -> StreamTable:
    """Three appends to one chunk."""
    table = StreamTable(folder, SCHEMA)
    for number in range(3):
        table.append(rows(range(10 * number, 10 * number + 10)), number + 1)
    return table


def content(table: StreamTable) -> tuple[Any, ...]:
    """The rows with their identities and append numbers in their order, the identity index, and
    what the log says of each file.
    """
    files = table.data_files()
    tables = [table.read_file(file.path, table.files.stored_columns) for file in files]
    statistics = [(file.chunk, file.rows, file.bytes, file.oldest, file.newest) for file in files]
    return (
        [part.to_pydict() for part in tables],
        table.read_identities(0)[0].tolist(),
        statistics,
        table.count_unclustered(0),
    )


def assert_equal_clustering(tmp_path: Path, jobs: Jobs) -> None:
    here, there = fill(tmp_path / "here"), fill(tmp_path / "there")
    here.cluster(0)
    there.cluster(0, TaskClustering(jobs))
    assert content(here) == content(there)
    assert len(here.data_files()) == 1


def test_task_clusters_many_rows_like_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = InlineJobs()
    assert_equal_clustering(tmp_path / "few", jobs)
    assert jobs.task_count == 0
    monkeypatch.setattr(clustering, "MIN_CLUSTERED_ROWS", 30)
    assert_equal_clustering(tmp_path / "many", jobs)
    assert jobs.task_count == 1


@pytest.mark.services
def test_worker_of_spark_clusters_like_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setattr(clustering, "MIN_CLUSTERED_ROWS", 1)
    jobs = SparkJobs(spark.sparkContext)
    assert_equal_clustering(tmp_path, jobs)
    assert jobs.task_count == 1


def test_chunk_is_clustered_here_when_the_task_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "MIN_CLUSTERED_ROWS", 1)
    jobs = InlineJobs()

    def lose(*_: object) -> None:
        raise TaskLost

    monkeypatch.setattr(jobs, "map", lose)
    assert_equal_clustering(tmp_path, jobs)
