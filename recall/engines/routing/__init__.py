"""Which engine runs what: by the setting, by the query, and by the times that were measured."""

from recall.engines.routing.choice import WIDE_SCAN_ROWS, EngineChoice, EngineSetting
from recall.engines.routing.cost_model import EngineCosts
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter, explain_engine, runs_in_duckdb

__all__ = [
    "EngineChoice",
    "EngineCosts",
    "EngineRouter",
    "EngineSetting",
    "PartialCache",
    "WIDE_SCAN_ROWS",
    "explain_engine",
    "runs_in_duckdb",
]
