"""Queries in DuckDB have time limits."""

import threading
import time

import duckdb
import pytest

from recall.engines.duckdb_session import connect_duckdb, fetch_table

ENDLESS = (
    "SELECT count(*) AS n FROM range(1_000_000) a, range(1_000_000) b WHERE a.range <> b.range"
)


def test_query_that_exceeds_its_time_limit_is_interrupted() -> None:
    duck = connect_duckdb()
    began = time.thread_time()
    with pytest.raises(duckdb.InterruptException):
        fetch_table(duck, ENDLESS, time_limit=0.1)
    assert time.thread_time() - began >= 0.1
    assert fetch_table(duck, "SELECT $n AS n", {"n": 1}, time_limit=10.0).to_pylist() == [{"n": 1}]


def test_watcher_of_a_time_limit_ends_with_the_query() -> None:
    before = threading.active_count()
    fetch_table(connect_duckdb(), "SELECT 1 AS n", time_limit=60.0)
    assert threading.active_count() == before
