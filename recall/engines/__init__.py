"""Engines that run statements over rows, for rules and for recalls: DuckDB and Spark.

`Statement` is what both engines run; `EngineChoice` tells which of them does. `EngineRouter` answers
queries of recalls over the archive. `recall.engines.derived_streams` reads the archived rows of
derived streams.
"""

from recall.engines.answers import AnswerRows, MergedPartials
from recall.engines.duckdb import DuckDBStatements, LocalEngine, evaluate_condition
from recall.engines.isolation import run_isolated, split_in_halves, split_into_items
from recall.engines.pending_events import JSON_OPTIONS, PendingEvent, create_pending_frame
from recall.engines.routing import (
    EngineChoice,
    EngineCosts,
    EngineRouter,
    EngineSetting,
    PartialCache,
    explain_engine,
    run_each,
)
from recall.engines.spark import SparkEngine, SparkStatements
from recall.engines.statement import Statement, StatementEngine
from recall.engines.template import EventTables, PartialQuery, Template, merge_partials

__all__ = [
    "AnswerRows",
    "DuckDBStatements",
    "EngineChoice",
    "EngineCosts",
    "EngineRouter",
    "EngineSetting",
    "EventTables",
    "JSON_OPTIONS",
    "LocalEngine",
    "MergedPartials",
    "PartialCache",
    "PartialQuery",
    "PendingEvent",
    "SparkEngine",
    "SparkStatements",
    "Statement",
    "StatementEngine",
    "Template",
    "create_pending_frame",
    "evaluate_condition",
    "explain_engine",
    "merge_partials",
    "run_each",
    "run_isolated",
    "split_in_halves",
    "split_into_items",
]
