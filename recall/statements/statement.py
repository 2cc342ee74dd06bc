"""A statement over tables of rows, and the interface of what runs it. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Statement:
    """SQL in the dialect of an engine, with what it needs besides the registered tables.

    `tables`: rows by name, registered while it runs. `views`: SQL of subqueries by name, in the
    order of creation; each is computed once, by the statement. `settings`: of Spark while it runs.
    """

    text: str
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


class StatementEngine(Protocol):
    """Runs one statement at a time.

    `tests/contract/test_statement_engines.py` holds what all engines have in common.
    """

    def register(self, name: str, rows: pa.Table) -> None:
        """Add a table, or replace it."""

    def unregister(self, name: str) -> None:
        """Remove a table."""

    def run(self, statement: Statement, time_limit: float | None = None) -> pa.Table:
        """The result of a statement.

        Raises `StatementTimeout` after `time_limit` seconds of processor time, so that load from
        other processes does not count. Other errors: see the engines.
        """

    def interrupt(self) -> None:
        """End the running statement with an error; may be called from any thread."""
