"""DuckDB inside this process: one thread, times in UTC, results as Arrow tables."""

import threading
import warnings
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """A new in-memory database."""
    # Results are small compared with what is read for them: copying one costs less than planning
    # every statement twice, as `connection.sql(…).to_arrow_table()` does.
    warnings.filterwarnings("ignore", "Arrow output on a DB-API result makes an extra copy")
    duck = duckdb.connect(":memory:", config={"threads": "1", "memory_limit": "1GB"})
    duck.execute("SET TimeZone = 'UTC'")
    return duck


def fetch_table(
    duck: duckdb.DuckDBPyConnection,
    query: str,
    parameters: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
) -> pa.Table:
    """The result of a query. `parameters`: values of its $names. Raises `duckdb.Error`.

    A query that takes longer than `time_limit` seconds raises `duckdb.InterruptException`.
    """
    values = None if parameters is None else dict(parameters)
    if time_limit is None:
        return duck.execute(query, values).to_arrow_table()
    timer = threading.Timer(time_limit, duck.interrupt)
    timer.daemon = True
    timer.start()
    try:
        return duck.execute(query, values).to_arrow_table()
    finally:
        timer.cancel()
