"""DuckDB in this process and in tasks: statements over rows, queries of recalls, conditions."""

from recall.engines.duckdb.condition import evaluate_condition
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.duckdb.merge import is_portable as is_merge_portable
from recall.engines.duckdb.portable import to_portable
from recall.engines.duckdb.wide_scan import WideScanEngine
from recall.statements import DuckDBStatements

__all__ = [
    "DuckDBStatements",
    "LocalEngine",
    "WideScanEngine",
    "evaluate_condition",
    "is_merge_portable",
    "to_portable",
]
