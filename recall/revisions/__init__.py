"""Answers as streams of row revisions: inserted, updated and deleted rows with keys. No I/O."""

from recall.revisions.changes import (
    KeyedRows,
    RowChange,
    apply_change,
    diff,
)
from recall.revisions.row_keys import (
    HIT_COLUMNS,
    context_column,
    describe_rows,
    key_rows,
    question_row_key,
)

__all__ = [
    "HIT_COLUMNS",
    "KeyedRows",
    "RowChange",
    "apply_change",
    "context_column",
    "describe_rows",
    "diff",
    "key_rows",
    "question_row_key",
]
