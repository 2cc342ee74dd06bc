"""Streaming queries of Spark."""

from moirae.live.sources.queries.number_query import NumberQuery

__all__ = ["NumberQuery"]
