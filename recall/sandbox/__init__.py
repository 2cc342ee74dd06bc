"""SQL written by users is validated on Spark's plans before it may run.

SQL is code: what may run is decided by allowlists of Spark's plan nodes, functions and tables.
"""

from recall.sandbox.validation import (
    SPARK_LOST,
    QueryValidator,
    harden_session,
    validate_query,
)

__all__ = [
    "SPARK_LOST",
    "QueryValidator",
    "harden_session",
    "validate_query",
]
