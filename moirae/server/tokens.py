"""Who may ask for what: random tokens, of which only hashes are kept, each with a role."""

import hashlib
import hmac
import re
import secrets
from typing import Any, Literal, get_args

from psycopg import Connection
from psycopg.errors import UniqueViolation
from psycopg.rows import dict_row

import sql
from moirae.errors import UsageError

TokenRole = Literal["viewer", "operator", "admin"]
"""Each may do what those before it may: read; post rows; change what runs."""
TOKEN_ROLES: tuple[TokenRole, ...] = get_args(TokenRole)

_QUERIES = sql.load("tokens")
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Its public part finds the row, its secret part (256 bits) is never stored: so a plain hash of the
# whole will do.
_TOKEN_PATTERN = re.compile(rb"moirae_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_UNKNOWN_HASH = b"\x00" * 32


def create_token(connection: Connection[Any], name: str, role: TokenRole) -> str:
    """A new token, which cannot be shown again. Raises `UsageError` for a bad name or one in use."""
    if _NAME_PATTERN.fullmatch(name) is None:
        raise UsageError(
            f"{name[:80]!r} is not a name: letters, digits, '.', '_' and '-', at most 63"
        )
    number = secrets.token_hex(8)
    token = f"moirae_{number}_{secrets.token_urlsafe(32)}"
    values = {"id": number, "name": name, "role": role, "hash": _digest(token.encode())}
    try:
        connection.execute(_QUERIES["put"], values)
    except UniqueViolation:
        raise UsageError(
            f"there is a token {name!r} already; revoke it, or choose another name"
        ) from None
    return token


def list_tokens(connection: Connection[Any]) -> list[dict[str, Any]]:
    """Names, roles and times of all tokens, also revoked ones."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES["tokens"]).fetchall()


def revoke_token(connection: Connection[Any], name: str) -> bool:
    """End a token; whether there was one of that name."""
    return connection.execute(_QUERIES["revoke"], {"name": name}).rowcount > 0


def has_active_token(connection: Connection[Any]) -> bool:
    """Whether anybody has a token."""
    return any(token["revoked_at"] is None for token in list_tokens(connection))


def authenticate(connection: Connection[Any], token: bytes) -> TokenRole | None:
    """The role of whoever presents these bytes; None for nobody we know. Compared in constant time."""
    match = _TOKEN_PATTERN.fullmatch(token)
    number = match[1].decode("ascii") if match else ""
    row = connection.execute(_QUERIES["token"], {"id": number}).fetchone()
    kept: bytes = row[1] if row else _UNKNOWN_HASH
    same = hmac.compare_digest(_digest(token), bytes(kept))
    return row[0] if row and same else None


def role_allows(role: TokenRole, needed: TokenRole) -> bool:
    """Whether a role may do what another is needed for."""
    return TOKEN_ROLES.index(role) >= TOKEN_ROLES.index(needed)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
