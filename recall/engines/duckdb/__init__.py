"""DuckDB in this process and in tasks: statements over rows, queries of recalls, conditions."""

from recall.engines.duckdb.condition import evaluate_condition
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.duckdb.executor_engine import WIDE_SCAN_ROWS, ExecutorEngine
from recall.engines.duckdb.merge import is_portable as is_merge_portable
from recall.engines.duckdb.portable import to_portable
from recall.statements import DuckDBStatements

__all__ = [
    "DuckDBStatements",
    "ExecutorEngine",
    "LocalEngine",
    "WIDE_SCAN_ROWS",
    "evaluate_condition",
    "is_merge_portable",
    "to_portable",
]
