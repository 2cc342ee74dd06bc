"""Streams whose files are rewritten for changed columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sql.gateway import Gateway
from sql.values import replace_nul

RewriteState = Literal["checking", "rewriting", "failing", "refused"]


@dataclass(frozen=True, slots=True)
class ColumnRewriteRow:
    """How far a rewrite is.

    `state`: `failing` is tried again at intervals; `refused` is not: a value would change. `steps`:
    of the state. `bytes_needed`: of the steps that are left. `reason`: of the last failure.
    """

    stream: str
    columns: Sequence[str]
    state: RewriteState
    steps_done: int
    steps: int
    bytes_needed: int
    reason: str | None
    started_at: datetime
    updated_at: datetime


class ColumnRewriteGateway(Gateway):
    queries = "column_rewrites"

    def list_all(self) -> list[ColumnRewriteRow]:
        """All rewrites that are not finished, the longest first."""
        return self._records(ColumnRewriteRow, "list_all")

    def put(
        self,
        stream: str,
        columns: Sequence[str],
        state: RewriteState,
        *,
        steps_done: int,
        steps: int,
        bytes_needed: int,
        reason: str | None,
    ) -> None:
        """Store how far the rewrite of a stream is."""
        self._execute(
            "put",
            stream=stream,
            columns=list(columns),
            state=state,
            steps_done=steps_done,
            steps=steps,
            bytes_needed=bytes_needed,
            reason=None if reason is None else replace_nul(reason),
        )

    def delete_others(self, streams: Sequence[str]) -> None:
        """Forget the rewrites of all streams but some: they are finished, or given up."""
        self._execute("delete_others", streams=list(streams))
