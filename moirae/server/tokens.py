"""API tokens: random secrets with a role, of which only hashes are stored."""

import hashlib
import hmac
import re
import secrets
from typing import Literal, cast, get_args

import sql
from moirae.errors import UsageError

TokenRole = Literal["viewer", "operator", "admin"]
"""What a token permits: reading; also posting rows; also reloading rules."""
TOKEN_ROLES: tuple[TokenRole, ...] = get_args(TokenRole)

_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# The public ID, which selects the row, and 256 secret bits. With that many random bits a plain hash
# without salt is sufficient.
_TOKEN_PATTERN = re.compile(rb"moirae_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_UNKNOWN_HASH = b"\x00" * 32  # compared for unknown tokens, so that they take the same time


def create_token(connection: sql.Connection, name: str, role: TokenRole) -> str:
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
    tokens = sql.TokenGateway(connection)
    if not tokens.insert(token_id, name=name, role=role, token_hash=_digest(token.encode())):
        raise UsageError(f"token {name!r} already exists: revoke it, or choose another name")
    return token


def has_active_token(connection: sql.Connection) -> bool:
    """Whether there is a token that is not revoked."""
    return any(token.revoked_at is None for token in sql.TokenGateway(connection).list_all())


def authenticate(connection: sql.Connection, token: bytes) -> TokenRole | None:
    """The role of a token; None if it is unknown or revoked. Compares in constant time."""
    match = _TOKEN_PATTERN.fullmatch(token)
    token_id = match[1].decode("ascii") if match else ""
    row = sql.TokenGateway(connection).get_active(token_id)
    stored_hash = row.hash if row else _UNKNOWN_HASH
    matches = hmac.compare_digest(_digest(token), stored_hash)
    if row is None or not matches:
        return None
    return cast(TokenRole, row.role)


def role_allows(role: TokenRole, required_role: TokenRole) -> bool:
    """Whether a role includes the permissions of another one."""
    return TOKEN_ROLES.index(role) >= TOKEN_ROLES.index(required_role)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
