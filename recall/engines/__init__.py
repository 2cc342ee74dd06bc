"""Engines that run statements over rows, for rules and for recalls: DuckDB and Spark.

Both run a `Statement`. `recall.engines.routing` has a front door of its own: `EngineChoice` decides
which engine runs a statement, `EngineRouter` answers queries of recalls over the archive. Modules
of their own: `recall.engines.derived_streams` reads the archived rows of derived streams,
`recall.engines.pending_events` creates the table of events that queries join,
`recall.engines.attribute_values` finds the values of columns that can match,
`recall.engines.isolation` repeats for parts what fails for many.
"""

from recall.engines.answers import AnswerRows, MergedPartials, to_json_value
from recall.engines.duckdb import (
    DuckDBStatements,
    LocalEngine,
    WideScanEngine,
    evaluate_condition,
    to_portable,
)
from recall.engines.error_summary import find_pattern_limit, summarize_error
from recall.engines.lru_cache import LruCache
from recall.engines.spark import (
    FilterResult,
    RelationDigests,
    RowFilters,
    SparkEngine,
    SparkStatements,
)
from recall.engines.template import EventTables, PartialQuery, Template, merge_partials
from recall.statements import Statement, scan_files, select_range

__all__ = [
    "AnswerRows",
    "DuckDBStatements",
    "EventTables",
    "FilterResult",
    "LocalEngine",
    "LruCache",
    "MergedPartials",
    "PartialQuery",
    "RelationDigests",
    "RowFilters",
    "SparkEngine",
    "SparkStatements",
    "Statement",
    "Template",
    "WideScanEngine",
    "evaluate_condition",
    "find_pattern_limit",
    "merge_partials",
    "scan_files",
    "select_range",
    "summarize_error",
    "to_json_value",
    "to_portable",
]
