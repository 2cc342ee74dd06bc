"""Recalls that may have read alerts before these were settled."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class UnsettledReadRow:
    """A task that reads alerts. `ts`: of its event, in microseconds. `seen`: what it has read, as
    in `tasks`.
    """

    id: UUID
    ts: int
    state: str
    seen: Sequence[Any]


class UnsettledReadGateway(Gateway):
    """Tasks that read alerts, until it is known that these were settled."""

    queries = "unsettled_reads"

    def add(self, tasks: Collection[UUID]) -> None:
        """Note tasks that were added."""
        self._execute("add", tasks=list(tasks))

    def list_settled(self, before: int, limit: int) -> list[UnsettledReadRow]:
        """Those about events before a time, in microseconds, that have read nothing or ended."""
        return self._records(UnsettledReadRow, "list_settled", before=before, limit=limit)

    def has_open(self, before: int) -> bool:
        """Whether some about events before a time wait or run."""
        return bool(self._value("has_open", before=before))

    def remove(self, tasks: Collection[UUID]) -> None:
        """Forget tasks."""
        self._execute("remove", tasks=list(tasks))
