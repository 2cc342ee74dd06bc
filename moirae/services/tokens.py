"""API tokens and browser sessions: random secrets, of which only hashes are stored."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import cast, get_args

import sql
from moirae.errors import Conflict, NotFound, UsageError
from moirae.services.operation import Role
from sql.access import SessionGateway, TokenGateway

TOKEN_ROLES: tuple[Role, ...] = get_args(Role)
SESSION_DURATION = 12 * 3600.0  # seconds
LOGIN_CODE_DURATION = 600.0  # seconds

_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# The public ID, which selects the row, and 256 secret bits. With that many random bits a plain hash
# without salt is sufficient.
_TOKEN_PATTERN = re.compile(rb"moirae_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_UNKNOWN_HASH = b"\x00" * 32  # compared for unknown tokens, so that they take the same time
_SECRET_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 random bits


@dataclass(frozen=True)
class Identity:
    """Who makes a request: the ID, name and role of a token.

    `stream`: the only one that the token may post for; None: all. `allow_query`: whether a viewer may
    start queries over the history.
    `csrf_token`: of a browser session, what each change must repeat; None for a request with the
    token itself. `expires_at`: the end of the session.
    """

    token_id: str
    name: str
    role: Role
    csrf_token: str | None = None
    expires_at: datetime | None = None
    stream: str | None = None
    allow_query: bool = False

    def may(self, required_role: Role, *, is_query: bool = False) -> bool:
        """Whether the token permits what needs a role; `is_query`: or the right to query."""
        return role_allows(self.role, required_role) or (is_query and self.allow_query)


def create_token(
    connection: sql.Connection,
    name: str,
    role: Role,
    stream: str | None = None,
    *,
    allow_query: bool = False,
) -> str:
    """Create a token and return it; it cannot be read again.

    `stream`, `allow_query`: see `Identity`. Raises `UsageError` if the name is invalid or in use.
    """
    if _NAME_PATTERN.fullmatch(name) is None:
        raise UsageError(
            f"invalid token name {name[:80]!r}: use at most 63 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    token_id = secrets.token_hex(8)
    token = f"moirae_{token_id}_{secrets.token_urlsafe(32)}"
    tokens = TokenGateway(connection)
    with connection.transaction():  # a savepoint: the statement may fail
        inserted = tokens.insert(
            token_id,
            name=name,
            role=role,
            token_hash=_digest(token.encode()),
            stream=stream,
            allow_query=allow_query,
        )
        if not inserted:
            raise Conflict(f"token {name!r} already exists: revoke it, or choose another name")
    return token


def has_active_token(connection: sql.Connection) -> bool:
    """Whether there is a token that is not revoked."""
    return any(token.revoked_at is None for token in TokenGateway(connection).list_all())


def authenticate(connection: sql.Connection, token: bytes) -> Identity | None:
    """Whose token it is; None if it is unknown or revoked. Compares in constant time."""
    match = _TOKEN_PATTERN.fullmatch(token)
    token_id = match[1].decode("ascii") if match else ""
    row = TokenGateway(connection).get_active(token_id)
    stored_hash = row.hash if row else _UNKNOWN_HASH
    matches = hmac.compare_digest(_digest(token), stored_hash)
    if row is None or not matches:
        return None
    return Identity(
        token_id,
        row.name,
        cast(Role, row.role),
        stream=row.stream,
        allow_query=row.allow_query,
    )


def open_session(connection: sql.Connection, token_id: str) -> str:
    """Open a session of a token ID, and return the value of its cookie. Raises `NotFound`."""
    cookie = secrets.token_urlsafe(32)
    opened = SessionGateway(connection).insert(
        _digest(cookie.encode()), token_id, seconds=SESSION_DURATION
    )
    if not opened:
        raise NotFound("the token is revoked")
    return cookie


def find_session(connection: sql.Connection, cookie: str) -> Identity | None:
    """Whose session it is; None if it has ended, or its token is revoked."""
    if _SECRET_PATTERN.fullmatch(cookie) is None:
        return None
    row = SessionGateway(connection).find(_digest(cookie.encode()))
    if row is None:
        return None
    return Identity(
        row.id,
        row.name,
        cast(Role, row.role),
        make_csrf_token(cookie),
        row.expires_at,
        allow_query=row.allow_query,
    )


def end_session(connection: sql.Connection, cookie: str) -> None:
    """End a session."""
    SessionGateway(connection).delete(_digest(cookie.encode()))


def make_csrf_token(cookie: str) -> str:
    """What each change of a session repeats in a header; scripts of other sites cannot know it."""
    return hmac.digest(cookie.encode(), b"moirae csrf", "sha256").hex()


def create_login_code(connection: sql.Connection, name: str) -> str:
    """A code that opens one session of a token, within ten minutes. Raises `NotFound`."""
    code = secrets.token_urlsafe(32)
    created = SessionGateway(connection).insert_code(
        _digest(code.encode()), name, seconds=LOGIN_CODE_DURATION
    )
    if not created:
        raise NotFound(f"no active token named {name!r}: see `moirae tokens list`")
    return code


def take_login_code(connection: sql.Connection, code: str) -> str | None:
    """Use up a code; returns the ID of its token, None if the code is not valid."""
    if _SECRET_PATTERN.fullmatch(code) is None:
        return None
    return SessionGateway(connection).take_code(_digest(code.encode()))


def role_allows(role: Role, required_role: Role) -> bool:
    """Whether a role includes the permissions of another one. Who only reads may not post data."""
    if required_role == "source":
        return role != "viewer"
    return TOKEN_ROLES.index(role) >= TOKEN_ROLES.index(required_role)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
