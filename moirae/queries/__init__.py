"""Ad-hoc queries over the archive (`moirae query`).

A query is a task of the recall ledger without a rule: it is scheduled, read chunk by chunk,
refined and controlled as recalls are.
"""

from moirae.queries.prepare import QueryOptions, prepare_query
from moirae.queries.task import has_recall_process, make_request

__all__ = [
    "QueryOptions",
    "has_recall_process",
    "make_request",
    "prepare_query",
]
