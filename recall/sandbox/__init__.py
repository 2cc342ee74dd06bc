"""SQL written by users is validated on Spark's plans before it may run.

SQL is code: what may run is decided by allowlists of Spark's plan nodes, functions and tables.
"""

from recall.sandbox.validation import SPARK_LOST, harden_session, validate_query
from recall.sandbox.verdict_cache import VerdictCache

__all__ = [
    "SPARK_LOST",
    "VerdictCache",
    "harden_session",
    "validate_query",
]
