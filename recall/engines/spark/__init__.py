"""Spark: statements and filters over rows, queries of recalls, conditions."""

from recall.engines.spark.engine import RelationDigests, SparkEngine
from recall.engines.spark.row_filters import FilterResult, RowFilters
from recall.engines.spark.statements import SparkStatements

__all__ = ["FilterResult", "RelationDigests", "RowFilters", "SparkEngine", "SparkStatements"]
