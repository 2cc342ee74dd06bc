"""Engines that run queries over history: Spark, DuckDB, and the router between them."""

from recall.engines.answers import AnswerRows, compute_answers
from recall.engines.condition import evaluate_condition
from recall.engines.cost_model import EngineCosts
from recall.engines.derived_streams import DerivedStreamReader, compute_derived_version
from recall.engines.duckdb_session import connect_duckdb, fetch_table
from recall.engines.local import LocalEngine
from recall.engines.lru_cache import LruCache
from recall.engines.partial_cache import PartialCache
from recall.engines.pending_events import JSON_OPTIONS, PendingEvent, create_pending_frame
from recall.engines.router import EngineRouter, EngineSetting, explain_engine
from recall.engines.spark import SparkEngine, warm_up_spark
from recall.engines.template import EventTables, PartialQuery, Template, merge_partials

__all__ = [
    "AnswerRows",
    "DerivedStreamReader",
    "EngineCosts",
    "EngineRouter",
    "EngineSetting",
    "EventTables",
    "JSON_OPTIONS",
    "LocalEngine",
    "LruCache",
    "PartialCache",
    "PartialQuery",
    "PendingEvent",
    "SparkEngine",
    "Template",
    "compute_answers",
    "compute_derived_version",
    "connect_duckdb",
    "create_pending_frame",
    "evaluate_condition",
    "explain_engine",
    "fetch_table",
    "merge_partials",
    "warm_up_spark",
]
