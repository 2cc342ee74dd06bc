"""Engines that run statements over rows, for rules and for recalls: DuckDB and Spark.

Both run a `Statement`; `EngineChoice` decides which of them does. `EngineRouter` answers queries of
recalls over the archive. Modules of their own: `recall.engines.derived_streams` reads the archived
rows of derived streams, `recall.engines.pending_events` creates the table of events that queries
join, `recall.engines.isolation` repeats for parts what fails for many.
"""

from recall.engines.answers import AnswerRows, MergedPartials, to_json_value
from recall.engines.duckdb import (
    DuckDBStatements,
    LocalEngine,
    WideScanEngine,
    evaluate_condition,
)
from recall.engines.lru_cache import LruCache
from recall.engines.routing import (
    EngineChoice,
    EngineCosts,
    EngineRouter,
    EngineSetting,
    PartialCache,
    explain_engine,
    runs_in_duckdb,
)
from recall.engines.spark import SparkEngine, SparkStatements
from recall.engines.template import EventTables, PartialQuery, Template, merge_partials
from recall.statements import Statement

__all__ = [
    "AnswerRows",
    "DuckDBStatements",
    "EngineChoice",
    "EngineCosts",
    "EngineRouter",
    "EngineSetting",
    "EventTables",
    "LocalEngine",
    "LruCache",
    "MergedPartials",
    "PartialCache",
    "PartialQuery",
    "SparkEngine",
    "SparkStatements",
    "Statement",
    "Template",
    "WideScanEngine",
    "evaluate_condition",
    "explain_engine",
    "merge_partials",
    "runs_in_duckdb",
    "to_json_value",
]
