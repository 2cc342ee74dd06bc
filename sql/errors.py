"""Errors of the database, under the names that the rest of the project uses.

They are psycopg's own classes: a gateway raises what PostgreSQL reports.
"""

from psycopg import DataError, InterfaceError, OperationalError
from psycopg import Error as DatabaseError
from psycopg.errors import DeadlockDetected, ProgramLimitExceeded

__all__ = [
    "DataError",
    "DatabaseError",
    "DeadlockDetected",
    "InterfaceError",
    "OperationalError",
    "ProgramLimitExceeded",
    "SchemaTooNew",
]


class SchemaTooNew(Exception):
    """The database was migrated by a newer version of Moirae."""
