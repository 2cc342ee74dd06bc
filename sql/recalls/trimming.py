"""Trimming of what ended recalls leave."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class EndedTaskRow:
    """An ended task. `pieces`: what it has read; None if it has not begun."""

    id: UUID
    pieces: Sequence[tuple[int, int | None, int]] | None


class TrimmingGateway(Gateway):
    """Deletes what nobody reads of tasks and events that ended before some `age`."""

    queries = "trimming"

    def list_ended(self, age: timedelta, limit: int) -> list[EndedTaskRow]:
        """Tasks to trim, locked until the transaction ends."""
        return self._records(EndedTaskRow, "list_ended", age=age, limit=limit)

    def put_pieces(self, tasks: Iterable[tuple[UUID, Sequence[Any], int]]) -> None:
        """Replace the pieces of tasks, given with their number; those without any stay so."""
        rows = []
        for task, pieces, count in tasks:
            rows.append({"id": task, "pieces": Jsonb(pieces), "piece_count": count})
        self._execute_many("put_pieces", rows)

    def delete_superseded(self, tasks: Collection[UUID]) -> None:
        """Delete all but the last answers of tasks."""
        self._execute("delete_superseded", ids=list(tasks))

    def delete_archived_rows(self, stream: int, age: timedelta, limit: int) -> int:
        """Delete archived revisions about up to `limit` ended events; returns how many."""
        return int(self._value("delete_archived_rows", stream=stream, age=age, limit=limit))
