"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. A gateway holds the statements of one file in
`queries/` and returns records; the caller owns the transaction (`connection.transaction()`).
"""

from sql.connection import Connection, ConnectionPool, connect
from sql.deployments import DeploymentGateway, DeploymentRow
from sql.errors import (
    DatabaseError,
    DeadlockDetected,
    InterfaceError,
    OperationalError,
    SchemaTooNew,
)
from sql.loader import load
from sql.migrate import migrate
from sql.rule_errors import RuleErrorGateway
from sql.rule_files import RuleFileGateway
from sql.rules import RuleGateway
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
    # Rules, their deployments, files and errors
    "DeploymentGateway",
    "DeploymentRow",
    "RuleErrorGateway",
    "RuleFileGateway",
    "RuleGateway",
]
