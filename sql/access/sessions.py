"""Browser sessions of tokens, and the one-time codes that open them."""

from dataclasses import dataclass
from datetime import datetime

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session that has not ended: ID, name and rights of its token."""

    id: str
    name: str
    role: str
    allow_query: bool
    expires_at: datetime


class SessionGateway(Gateway):
    """Sessions and codes are found by their SHA-256."""

    queries = "sessions"

    def insert(self, session_hash: bytes, token: str, *, seconds: float) -> bool:
        """Store a session of a token ID. Returns False if the token is unknown or revoked."""
        cursor = self._execute("insert", hash=session_hash, token=token, seconds=seconds)
        return cursor.rowcount == 1

    def find(self, session_hash: bytes) -> SessionRow | None:
        """The session; None if it has ended, or its token is revoked."""
        return self._record(SessionRow, "find", hash=session_hash)

    def delete(self, session_hash: bytes) -> None:
        """End a session."""
        self._execute("delete", hash=session_hash)

    def insert_code(self, code_hash: bytes, name: str, *, seconds: float) -> bool:
        """Store a one-time code for the token of a name. Returns False without such a token."""
        cursor = self._execute("insert_code", hash=code_hash, name=name, seconds=seconds)
        return cursor.rowcount == 1

    def take_code(self, code_hash: bytes) -> str | None:
        """Use up a code; returns its token's ID, None if the code is unknown or has expired."""
        token: str | None = self._value("take_code", hash=code_hash)
        return token

    def delete_expired(self) -> None:
        """Delete sessions and codes that have ended."""
        self._execute("delete_expired")
