"""Bring a database to the schema of this version.

A migration is a file `migrations/NNNN_what.sql`; its number is its place in the order. Migrations
are never changed once released, and each runs once, in one transaction with the row that records
it. An empty database gets `schema.sql` instead, which a test holds equal to all migrations.

The first migration is the schema of version 0.1.0, in the form in which 0.1.0 itself applied it:
its statements have no effect on a database of 0.1.0.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from psycopg.sql import SQL

from sql.connection import Connection
from sql.errors import SchemaTooNew
from sql.loader import read_text

# Key of the advisory lock under which one process at a time migrates: any fixed number.
MIGRATION_LOCK = 0x6D6F6972
_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_CREATE_TABLE = SQL("""
CREATE TABLE IF NOT EXISTS schema_migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)""")


@dataclass(frozen=True)
class Migration:
    number: int
    name: str

    @property
    def statements(self) -> SQL:
        return SQL(read_text("migrations", f"{self.number:04}_{self.name}.sql"))


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations in the order of their numbers, which start at 1 and have no gap."""
    file_names = sorted(path.name for path in files(__package__).joinpath("migrations").iterdir())
    all_migrations = []
    for file_name in file_names:
        match = _FILE_NAME.fullmatch(file_name)
        if match:
            all_migrations.append(Migration(int(match[1]), match[2]))
    numbers = [migration.number for migration in all_migrations]
    assert numbers == list(range(1, len(numbers) + 1)), numbers
    return tuple(all_migrations)


def migrate(connection: Connection) -> None:
    """Apply the migrations that the database lacks.

    Takes no lock of a table if there are none. Raises `SchemaTooNew`, and psycopg's errors.
    """
    if _last_applied(connection) == len(migrations()):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        # Before the table is looked up: `to_regclass` alone may answer from this session's cache of
        # the catalog, without a table that was created while the session waited for the lock.
        connection.execute(_CREATE_TABLE)
        last_applied = _last_applied(connection)
        if last_applied > len(migrations()):
            raise SchemaTooNew(
                f"the database has migration {last_applied}, this version of Moirae knows"
                f" {len(migrations())}: update Moirae"
            )
        if last_applied == 0 and _is_empty(connection):
            connection.execute(SQL(read_text("schema.sql")))
            _record(connection, migrations())
            return
        for migration in migrations()[last_applied:]:
            connection.execute(migration.statements)
            _record(connection, [migration])


def _last_applied(connection: Connection) -> int:
    """The number of the last applied migration; 0 before the first."""
    row = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    if row is None or row[0] is None:
        return 0
    row = connection.execute("SELECT max(number) FROM schema_migrations").fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def _is_empty(connection: Connection) -> bool:
    """Whether no version of Moirae has used the database: each had this table from the start."""
    row = connection.execute("SELECT to_regclass('units')").fetchone()
    return row is None or row[0] is None


def _record(connection: Connection, applied: "tuple[Migration, ...] | list[Migration]") -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO schema_migrations (number, name) VALUES (%s, %s)",
            [(migration.number, migration.name) for migration in applied],
        )
