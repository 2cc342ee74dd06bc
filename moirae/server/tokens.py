"""Who may ask for what: random tokens, of which only hashes are kept, each with a role."""

import hashlib
import hmac
import re
import secrets
from typing import Literal, cast, get_args

import sql
from moirae.errors import UsageError

TokenRole = Literal["viewer", "operator", "admin"]
"""Each may do what those before it may: read; post rows; change what runs."""
TOKEN_ROLES: tuple[TokenRole, ...] = get_args(TokenRole)

_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Its public part finds the row, its secret part (256 bits) is never stored: so a plain hash of the
# whole will do.
_TOKEN_PATTERN = re.compile(rb"moirae_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_UNKNOWN_HASH = b"\x00" * 32


def create_token(connection: sql.Connection, name: str, role: TokenRole) -> str:
    """A new token, which cannot be shown again. Raises `UsageError` for a bad name or one in use."""
    if _NAME_PATTERN.fullmatch(name) is None:
        raise UsageError(
            f"{name[:80]!r} is not a name: letters, digits, '.', '_' and '-', at most 63"
        )
    number = secrets.token_hex(8)
    token = f"moirae_{number}_{secrets.token_urlsafe(32)}"
    token_hash = _digest(token.encode())
    if not sql.TokenGateway(connection).insert(number, name=name, role=role, token_hash=token_hash):
        raise UsageError(f"there is a token {name!r} already; revoke it, or choose another name")
    return token


def has_active_token(connection: sql.Connection) -> bool:
    """Whether anybody has a token."""
    return any(token.revoked_at is None for token in sql.TokenGateway(connection).list_all())


def authenticate(connection: sql.Connection, token: bytes) -> TokenRole | None:
    """The role of whoever presents these bytes; None for nobody we know. Compared in constant time."""
    match = _TOKEN_PATTERN.fullmatch(token)
    number = match[1].decode("ascii") if match else ""
    row = sql.TokenGateway(connection).get_active(number)
    stored_hash = row.hash if row else _UNKNOWN_HASH
    same = hmac.compare_digest(_digest(token), stored_hash)
    return cast(TokenRole, row.role) if row and same else None


def role_allows(role: TokenRole, needed: TokenRole) -> bool:
    """Whether a role may do what another is needed for."""
    return TOKEN_ROLES.index(role) >= TOKEN_ROLES.index(needed)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
