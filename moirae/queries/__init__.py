"""Ad-hoc queries over the archive (`moirae query`).

A query is a task of the recall ledger without a rule: it is scheduled, read chunk by chunk,
refined and controlled as recalls are.
"""

from moirae.queries.prepare import QueryOptions, prepare_query
from moirae.queries.task import (
    QueryState,
    QueryTask,
    has_recall_process,
    start_query,
)

__all__ = [
    "QueryOptions",
    "QueryState",
    "QueryTask",
    "has_recall_process",
    "prepare_query",
    "start_query",
]
