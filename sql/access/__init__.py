"""Tokens, sessions, idempotency keys and the audit log."""

from sql.access.audit import AuditGateway, AuditRow
from sql.access.idempotency_keys import IdempotencyKeyGateway
from sql.access.sessions import SessionGateway, SessionRow
from sql.access.tokens import TokenGateway, TokenRow

__all__ = [
    "AuditGateway",
    "AuditRow",
    "IdempotencyKeyGateway",
    "SessionGateway",
    "SessionRow",
    "TokenGateway",
    "TokenRow",
]
