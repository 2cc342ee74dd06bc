"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. A gateway holds the statements of one file in
`queries/` and returns records; the caller owns the transaction (`connection.transaction()`).
"""

from sql.chunks import ChunkGateway
from sql.connection import Connection, ConnectionPool, connect
from sql.dead_letters import DeadLetterGateway, DeadLetterRow, MarkedDeadLetterRow
from sql.errors import (
    DatabaseError,
    DeadlockDetected,
    InterfaceError,
    OperationalError,
    SchemaTooNew,
)
from sql.idempotency_keys import IdempotencyKeyGateway
from sql.loader import load
from sql.migrate import migrate
from sql.relations import RelationGateway
from sql.retention import RetentionGateway
from sql.source_tables import read_source_table
from sql.streams import StreamGateway
from sql.units import LedgerRow, RecordCounts, StreamCounts, UnitGateway
from sql.values import replace_nul

__all__ = [
    "Connection",
    "ConnectionPool",
    "DatabaseError",
    "DeadlockDetected",
    "InterfaceError",
    "OperationalError",
    "SchemaTooNew",
    "connect",
    "load",
    "migrate",
    "replace_nul",
    # Chunks
    "ChunkGateway",
    # Dead letters
    "DeadLetterGateway",
    "DeadLetterRow",
    "MarkedDeadLetterRow",
    # Idempotency keys
    "IdempotencyKeyGateway",
    # Relations
    "RelationGateway",
    "read_source_table",
    # Retention
    "RetentionGateway",
    # Streams
    "StreamGateway",
    # Source units
    "LedgerRow",
    "RecordCounts",
    "StreamCounts",
    "UnitGateway",
]
