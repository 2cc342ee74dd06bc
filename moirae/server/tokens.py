"""API tokens: random secrets with a role, of which only hashes are stored."""

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
"""What a token permits: reading; also posting rows; also reloading rules."""
TOKEN_ROLES: tuple[TokenRole, ...] = get_args(TokenRole)

_QUERIES = sql.load("tokens")
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# The public ID, which selects the row, and 256 secret bits. With that many random bits a plain hash
# without salt is sufficient.
_TOKEN_PATTERN = re.compile(rb"moirae_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_UNKNOWN_HASH = b"\x00" * 32  # compared for unknown tokens, so that they take the same time


def create_token(connection: Connection[Any], name: str, role: TokenRole) -> str:
    """Create a token and return it; it cannot be read again.

    Raises `UsageError` if the name is invalid or in use.
    """
    if _NAME_PATTERN.fullmatch(name) is None:
        raise UsageError(
            f"invalid token name {name[:80]!r}: use at most 63 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    token_id = secrets.token_hex(8)
    token = f"moirae_{token_id}_{secrets.token_urlsafe(32)}"
    values = {"id": token_id, "name": name, "role": role, "hash": _digest(token.encode())}
    try:
        connection.execute(_QUERIES["put"], values)
    except UniqueViolation:
        raise UsageError(
            f"token {name!r} already exists: revoke it, or choose another name"
        ) from None
    return token


def list_tokens(connection: Connection[Any]) -> list[dict[str, Any]]:
    """Name, role and times of all tokens, including revoked ones."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES["tokens"]).fetchall()


def revoke_token(connection: Connection[Any], name: str) -> bool:
    """Revoke the token of this name. Returns whether there was an active one."""
    return connection.execute(_QUERIES["revoke"], {"name": name}).rowcount > 0


def has_active_token(connection: Connection[Any]) -> bool:
    """Whether there is a token that is not revoked."""
    return any(token["revoked_at"] is None for token in list_tokens(connection))


def authenticate(connection: Connection[Any], token: bytes) -> TokenRole | None:
    """The role of a token; None if it is unknown or revoked. Compares in constant time."""
    match = _TOKEN_PATTERN.fullmatch(token)
    token_id = match[1].decode("ascii") if match else ""
    row = connection.execute(_QUERIES["token"], {"id": token_id}).fetchone()
    stored_hash = bytes(row[1]) if row else _UNKNOWN_HASH
    matches = hmac.compare_digest(_digest(token), stored_hash)
    if row is None or not matches:
        return None
    role: TokenRole = row[0]
    return role


def role_allows(role: TokenRole, required_role: TokenRole) -> bool:
    """Whether a role includes the permissions of another one."""
    return TOKEN_ROLES.index(role) >= TOKEN_ROLES.index(required_role)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
