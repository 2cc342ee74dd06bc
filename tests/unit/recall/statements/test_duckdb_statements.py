"""Statements in DuckDB have time limits; what they have in common with Spark is in `tests/contract`."""

import threading
import time
import warnings

import pyarrow as pa
import pytest

from recall.errors import Cancelled, SparkRequired, StatementTimeout
from recall.statements.duckdb_statements import DuckDBStatements, _limited_time
from recall.statements.statement import Statement

ENDLESS = Statement(
    "SELECT count(*) AS n FROM range(1_000_000) a, range(1_000_000) b WHERE a.range <> b.range"
)


def test_time_limit_is_of_processor_time() -> None:
    engine = DuckDBStatements()
    began = time.thread_time()
    with pytest.raises(StatementTimeout, match=r"exceeded its time limit of 0\.1 s"):
        engine.run(ENDLESS, time_limit=0.1)
    assert time.thread_time() - began >= 0.1
    assert engine.run(Statement("SELECT 1 AS n"), time_limit=10.0).to_pylist() == [{"n": 1}]


def test_watcher_of_a_time_limit_ends_with_the_statement() -> None:
    before = threading.active_count()
    DuckDBStatements().run(Statement("SELECT 1 AS n"), time_limit=60.0)
    assert threading.active_count() == before


def test_interruption_is_repeated_until_the_statement_ends() -> None:
    """DuckDB forgets it between two statements."""
    interruptions: list[float] = []
    with _limited_time(lambda: interruptions.append(time.thread_time()), 0.05):
        while len(interruptions) < 3:
            pass


def test_time_limit_is_of_wall_clock_time_where_processor_time_is_not_readable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(time, "pthread_getcpuclockid")
    with pytest.raises(StatementTimeout):
        DuckDBStatements().run(ENDLESS, time_limit=0.1)


def test_interrupted_statement_is_cancelled() -> None:
    engine = DuckDBStatements()
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(0.1):  # the statement may not have begun
            engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(Cancelled):
            engine.run(ENDLESS, time_limit=60.0)
    finally:
        ended.set()
        thread.join()


def test_statement_that_fails_needs_spark_and_leaves_no_tables() -> None:
    engine = DuckDBStatements()
    with pytest.raises(SparkRequired, match="missing"):
        engine.run(Statement("SELECT missing FROM t", tables={"t": pa.table({"n": [1]})}))
    with pytest.raises(SparkRequired, match="t does not exist"):
        engine.run(Statement("SELECT n FROM t"))


def test_no_warning_is_shown_after_other_code_has_restored_the_filters() -> None:
    engine = DuckDBStatements()
    with warnings.catch_warnings():
        engine.run(Statement("SELECT 1"))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        engine.run(Statement("SELECT 1"))
    assert shown == []
