"""Changes by operators: the audit log, and the idempotency keys of their requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A change. `via`: `cli`, `api` or `mcp`. `arguments`: what the operation was given."""

    id: int
    at: datetime
    author: str
    via: str
    operation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A change under an idempotency key. `digest`: SHA-256 of operation and arguments."""

    operation: str
    digest: bytes
    response: Any


class AuditGateway(Gateway):
    """All changes."""

    queries = "audit"

    def insert(self, author: str, via: str, operation: str, arguments: Mapping[str, Any]) -> None:
        """Record a change; part of its transaction."""
        self._execute(
            "insert",
            author=author,
            via=via,
            operation=operation,
            arguments=Jsonb(replace_nul(arguments)),
        )

    def list_newest(
        self, *, author: str | None, operation: str | None, before: int | None, limit: int
    ) -> list[AuditRow]:
        """Changes, newest first. `before`: the number of the last one of the previous page."""
        return self._records(
            AuditRow,
            "list_newest",
            author=author,
            operation=operation,
            before=before,
            limit=limit,
        )

    def count(self, *, author: str | None, operation: str | None) -> int:
        """The number of changes."""
        return self._count(
            "list_newest", author=author, operation=operation, before=None, limit=None
        )

    def insert_request(self, author: str, key: str, operation: str, digest: bytes) -> bool:
        """Take an idempotency key; part of the transaction of the change.

        Returns False if the author has used the key. Waits for a transaction that takes it.
        """
        cursor = self._execute(
            "insert_request", author=author, key=key, operation=operation, digest=digest
        )
        return cursor.rowcount == 1

    def record_response(self, author: str, key: str, response: Any) -> None:
        """Store the response under the key; part of the transaction of the change."""
        self._execute(
            "record_response", author=author, key=key, response=Jsonb(replace_nul(response))
        )

    def get_request(self, author: str, key: str) -> RequestRow | None:
        """The change under an idempotency key; None for an unknown key."""
        return self._record(RequestRow, "get_request", author=author, key=key)

    def delete_expired_requests(self) -> None:
        """Delete idempotency keys older than 7 days."""
        self._execute("delete_expired_requests")
