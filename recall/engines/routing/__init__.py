"""Which engine runs what: by the setting, by the query, and by the times that were measured."""

from recall.engines.routing.choice import EngineChoice, EngineSetting
from recall.engines.routing.cost_model import EngineCosts
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter, explain_engine, runs_in_duckdb

__all__ = [
    "EngineChoice",
    "EngineCosts",
    "EngineRouter",
    "EngineSetting",
    "PartialCache",
    "explain_engine",
    "runs_in_duckdb",
]
