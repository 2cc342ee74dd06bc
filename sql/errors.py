"""Errors of the database, under the names that the rest of the project uses.

They are psycopg's own classes: a gateway raises what PostgreSQL reports.
"""

from psycopg import Error as DatabaseError
from psycopg import InterfaceError, OperationalError
from psycopg.errors import DeadlockDetected

__all__ = [
    "DatabaseError",
    "DeadlockDetected",
    "InterfaceError",
    "OperationalError",
    "SchemaTooNew",
]


class SchemaTooNew(Exception):
    """The database was migrated by a newer version of Moirae."""
