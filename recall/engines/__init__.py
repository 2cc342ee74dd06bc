"""Engines that run queries over history: Spark, DuckDB, and the router between them.

`recall.engines.derived_streams` reads the archived rows of derived streams.
"""

from recall.engines.answers import AnswerRows, MergedPartials
from recall.engines.condition import evaluate_condition
from recall.engines.cost_model import EngineCosts
from recall.engines.duckdb_session import connect_duckdb, fetch_table
from recall.engines.isolation import run_isolated, split_in_halves, split_into_items
from recall.engines.local import LocalEngine
from recall.engines.partial_cache import PartialCache
from recall.engines.pending_events import JSON_OPTIONS, PendingEvent, create_pending_frame
from recall.engines.router import EngineRouter, EngineSetting, explain_engine
from recall.engines.spark import SparkEngine
from recall.engines.template import EventTables, PartialQuery, Template, merge_partials

__all__ = [
    "AnswerRows",
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
    "Template",
    "connect_duckdb",
    "create_pending_frame",
    "evaluate_condition",
    "explain_engine",
    "fetch_table",
    "merge_partials",
    "run_isolated",
    "split_in_halves",
    "split_into_items",
]
