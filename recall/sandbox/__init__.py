"""The rule gate: SQL written by operators is validated on Spark's plans before it may run."""

from recall.sandbox.sandbox import SPARK_LOST, harden_session, validate_query
from recall.sandbox.verdict_cache import VerdictCache

__all__ = [
    "SPARK_LOST",
    "VerdictCache",
    "harden_session",
    "validate_query",
]
