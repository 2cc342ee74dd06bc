"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. A gateway holds the statements of one file in
`queries/` and returns records; the caller owns the transaction (`connection.transaction()`).
"""

from sql.alert_notes import AlertNoteGateway, AlertNoteRow
from sql.alerts import (
    AlertDescriptionRow,
    AlertGateway,
    AlertLifetimeRow,
    AlertRow,
    OpenAlertRow,
    RaisedAlertRow,
)
from sql.connection import Connection, connect
from sql.errors import (
    DatabaseError,
    DeadlockDetected,
    InterfaceError,
    OperationalError,
    SchemaTooNew,
)
from sql.events import EventGateway, NewEventRow, StoredEventRow
from sql.loader import load
from sql.lookup import LookupGateway
from sql.migrate import migrate
from sql.pool import ConnectionPool, open_pool
from sql.processes import ProcessGateway, ProcessRow
from sql.tokens import TokenGateway
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
    "open_pool",
    "replace_nul",
    # Alerts
    "AlertDescriptionRow",
    "AlertGateway",
    "AlertLifetimeRow",
    "AlertNoteGateway",
    "AlertNoteRow",
    "AlertRow",
    "OpenAlertRow",
    "RaisedAlertRow",
    # Events
    "EventGateway",
    "NewEventRow",
    "StoredEventRow",
    # Lookup by ID
    "LookupGateway",
    # Processes
    "ProcessGateway",
    "ProcessRow",
    # Tokens
    "TokenGateway",
]
