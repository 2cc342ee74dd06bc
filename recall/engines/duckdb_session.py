"""DuckDB inside this process: one thread, times in UTC, results as Arrow tables."""

import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

_POLL_INTERVAL = 0.01  # seconds between checks of a query that is about to exceed its limit


def connect_duckdb(has_file_access: bool = True) -> duckdb.DuckDBPyConnection:
    """A new in-memory database.

    Without file access its statements read registered tables only: no files, network or extensions.
    """
    # Results are small compared with what is read for them: copying one costs less than planning
    # every statement twice, as `connection.sql(…).to_arrow_table()` does.
    warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy")
    duck = duckdb.connect(":memory:", config={"threads": "1", "memory_limit": "1GB"})
    duck.execute("SET TimeZone = 'UTC'")
    if not has_file_access:
        duck.execute("SET enable_external_access = false")
        duck.execute("SET lock_configuration = true")
    return duck


def fetch_table(
    duck: duckdb.DuckDBPyConnection,
    query: str,
    parameters: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
) -> pa.Table:
    """The result of a query. `parameters`: values of its $names. Raises `duckdb.Error`.

    A query that takes more than `time_limit` seconds of processor time raises
    `duckdb.InterruptException`: a machine that is busy with other work makes no query slow.
    """
    values = None if parameters is None else dict(parameters)
    if time_limit is None:
        return duck.execute(query, values).to_arrow_table()
    with _interrupt_after(duck, time_limit):
        return duck.execute(query, values).to_arrow_table()


@contextmanager
def _interrupt_after(duck: duckdb.DuckDBPyConnection, time_limit: float) -> Iterator[None]:
    """Interrupt queries once this thread has used some seconds of processor time."""
    # DuckDB has one thread here: the one that calls it.
    clock = time.pthread_getcpuclockid(threading.get_ident())
    deadline = time.clock_gettime(clock) + time_limit
    finished = threading.Event()

    def watch() -> None:
        remaining = time_limit
        while not finished.wait(max(remaining, _POLL_INTERVAL)):
            remaining = deadline - time.clock_gettime(clock)
            if remaining <= 0:
                duck.interrupt()
                return

    watcher = threading.Thread(target=watch, daemon=True, name="duckdb time limit")
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()
