"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. The gateways are in folders by noun. A gateway holds
the statements of one file in `queries/` and returns records; the caller owns the transaction
(`connection.transaction()`).
"""

from sql.connection import Connection, connect
from sql.errors import (
    DatabaseError,
    DataError,
    DeadlockDetected,
    InterfaceError,
    OperationalError,
    ProgramLimitExceeded,
    SchemaTooNew,
    UpgradeRequired,
    is_connection_failure,
)
from sql.migrate import (
    Migration,
    has_schema,
    list_pending,
    measure_database,
    migrate,
    newest_migration,
)
from sql.pool import ConnectionPool, open_pool
from sql.values import replace_nul

__all__ = [
    "Connection",
    "ConnectionPool",
    "DataError",
    "DatabaseError",
    "DeadlockDetected",
    "InterfaceError",
    "Migration",
    "OperationalError",
    "ProgramLimitExceeded",
    "SchemaTooNew",
    "UpgradeRequired",
    "connect",
    "has_schema",
    "is_connection_failure",
    "list_pending",
    "measure_database",
    "migrate",
    "newest_migration",
    "open_pool",
    "replace_nul",
]
