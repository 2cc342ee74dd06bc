"""The session of a check."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from archiver.errors import NotInstalled
from moirae.rules.checks.check_session import CheckSession


def start_nothing() -> SparkSession:
    raise NotInstalled("no jars")


def test_spark_does_not_start_without_queries() -> None:
    CheckSession(start_nothing).prepare([])


def test_reports_that_spark_cannot_start_once_all_queries_are_read() -> None:
    read: list[str] = []

    def list_queries() -> Iterator[str]:
        for query in ("SELECT 1", "SELECT 2"):
            read.append(query)
            yield query

    with pytest.raises(NotInstalled, match="no jars"):
        CheckSession(start_nothing).prepare(list_queries())
    assert read == ["SELECT 1", "SELECT 2"]
