"""Spark: statements over rows, queries of recalls, conditions."""

from recall.engines.spark.engine import SparkEngine
from recall.engines.spark.statements import SparkStatements

__all__ = ["SparkEngine", "SparkStatements"]
