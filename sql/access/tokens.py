"""API tokens."""

from dataclasses import dataclass
from datetime import datetime

from psycopg.errors import UniqueViolation

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token. `stream`: the only one that it may post for; None: all. `allow_query`: of a viewer,
    whether it may start queries over the history. `revoked_at`: None while it is active.
    """

    name: str
    role: str
    stream: str | None
    allow_query: bool
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class ActiveTokenRow:
    """A token that is not revoked. `hash`: SHA-256 of the whole token. For others see `TokenRow`."""

    name: str
    role: str
    hash: bytes
    stream: str | None
    allow_query: bool


class TokenGateway(Gateway):
    """All tokens."""

    queries = "tokens"

    def insert(
        self,
        token_id: str,
        *,
        name: str,
        role: str,
        token_hash: bytes,
        stream: str | None,
        allow_query: bool,
    ) -> bool:
        """Store a token. Returns False if an active token has the name."""
        try:
            self._execute(
                "insert",
                id=token_id,
                name=name,
                role=role,
                hash=token_hash,
                stream=stream,
                allow_query=allow_query,
            )
        except UniqueViolation:
            return False
        return True

    def list_all(self) -> list[TokenRow]:
        """All tokens, including revoked ones, by name and then by age."""
        return self._records(TokenRow, "list_all")

    def list_page(self, after: tuple[datetime, str] | None, limit: int) -> list[TokenRow]:
        """Tokens as `list_all` has them, after the one of a time of creation and a name."""
        created_at, name = (None, None) if after is None else after
        return self._records(TokenRow, "list_page", name=name, created_at=created_at, limit=limit)

    def count(self) -> int:
        """The number of tokens, including revoked ones."""
        return self._count("list_all")

    def get_active(self, token_id: str) -> ActiveTokenRow | None:
        """The token of an ID; None if it is unknown or revoked."""
        return self._record(ActiveTokenRow, "get_active", id=token_id)

    def revoke(self, name: str) -> bool:
        """Revoke the active token of a name. Returns whether there was one."""
        return self._execute("revoke", name=name).rowcount > 0
