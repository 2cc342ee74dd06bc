"""Errors of the database, under the names that the rest of the project uses.

They are psycopg's own classes: a gateway raises what PostgreSQL reports.
"""

from psycopg import DataError, InterfaceError, OperationalError
from psycopg import Error as DatabaseError
from psycopg.errors import DeadlockDetected, ProgramLimitExceeded

__all__ = [
    "DataError",
    "ProgramLimitExceeded",
    "DatabaseError",
    "DeadlockDetected",
    "InterfaceError",
    "OperationalError",
    "SchemaTooNew",
    "UpgradeRequired",
    "is_connection_failure",
]

# Connection exceptions, and a server that stops, starts or has no connection left.
_CONNECTION_STATES = ("08", "57P", "53300")


class SchemaTooNew(Exception):
    """The database was migrated by a newer version of Moirae."""


class UpgradeRequired(Exception):
    """The database lacks migrations that cannot be applied now: `moirae upgrade` does, or a process of
    the version before has to stop first.
    """


def is_connection_failure(error: DatabaseError) -> bool:
    """Whether there is no connection; else PostgreSQL has answered that a statement failed."""
    return error.sqlstate is None or error.sqlstate.startswith(_CONNECTION_STATES)
