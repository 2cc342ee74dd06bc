"""Answers as streams of row revisions: inserted, updated and deleted rows with keys. No I/O."""

from recall.revisions.changes import (
    KeyedRows,
    Operation,
    RowChange,
    apply_change,
    diff,
    replay,
)
from recall.revisions.row_keys import (
    HIT_COLUMNS,
    RowKey,
    context_column,
    describe_rows,
    key_rows,
    question_row_key,
)

__all__ = [
    "HIT_COLUMNS",
    "KeyedRows",
    "Operation",
    "RowChange",
    "RowKey",
    "apply_change",
    "context_column",
    "describe_rows",
    "diff",
    "key_rows",
    "question_row_key",
    "replay",
]
