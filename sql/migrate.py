"""Bring a database to the schema of this version.

A migration is a file `migrations/NNNN_what.sql`; migrations run in the order of their numbers, which
may have gaps. They are never changed once released, and each runs once, in one transaction with the
row that records it. An empty database gets `schema.sql` instead, which a test holds equal to all
migrations.

Most migrations only add: any command applies them. One whose first line begins with `-- Rewrites:`
changes what an earlier version wrote, and is applied by `moirae upgrade` only.

The first migration is the schema of version 0.1.0, in the form in which 0.1.0 itself applied it:
its statements have no effect on a database of 0.1.0.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import LiteralString

from psycopg.sql import SQL

from sql.connection import Connection
from sql.errors import SchemaTooNew, UpgradeRequired
from sql.loader import read_text

# Key of the advisory lock under which one process at a time migrates: any fixed number.
MIGRATION_LOCK = 0x6D6F6972
# Locks that processes hold as long as they run, as in `queries/processes.sql`.
_ROLES = ("up", "live", "recall", "notify", "backup")
_LOCK_ROLE = SQL("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))")
_REWRITES = "-- Rewrites:"
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
        return SQL(self._text)

    @property
    def rewrites(self) -> bool:
        """Whether it changes what an earlier version wrote."""
        return self._text.startswith(_REWRITES)

    @property
    def _text(self) -> LiteralString:
        return read_text("migrations", f"{self.number:04}_{self.name}.sql")


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations in the order of their numbers, each of which is used once."""
    file_names = sorted(path.name for path in files(__package__).joinpath("migrations").iterdir())
    all_migrations = []
    for file_name in file_names:
        match = _FILE_NAME.fullmatch(file_name)
        if match:
            all_migrations.append(Migration(int(match[1]), match[2]))
    numbers = [migration.number for migration in all_migrations]
    assert len(set(numbers)) == len(numbers), numbers
    return tuple(all_migrations)


def newest_migration() -> int:
    """The number of the last migration that this version knows."""
    return migrations()[-1].number


def list_pending(connection: Connection) -> list[Migration]:
    """The migrations that a database lacks, in order; none for an empty one. Raises `SchemaTooNew`."""
    if not has_schema(connection):
        return []
    applied = _list_applied(connection)
    _check_known(applied)
    return [migration for migration in migrations() if migration.number not in applied]


def _check_known(applied: set[int]) -> None:
    last_known = newest_migration()
    if max(applied, default=0) > last_known:
        raise SchemaTooNew(
            f"the database has migration {max(applied)}, this version of Moirae knows"
            f" {last_known}: update Moirae"
        )


def migrate(connection: Connection, *, rewrite: bool = False) -> None:
    """Apply the migrations that the database lacks. `rewrite`: also those that rewrite data.

    Takes no lock of a table if there are none. Raises `SchemaTooNew`, `UpgradeRequired`, and
    psycopg's errors.
    """
    if _list_applied(connection) == {migration.number for migration in migrations()}:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        # Before the table is looked up: `to_regclass` alone may answer from this session's cache of
        # the catalog, without a table that was created while the session waited for the lock.
        connection.execute(_CREATE_TABLE)
        applied = _list_applied(connection)
        _check_known(applied)
        if not applied and not has_schema(connection):
            connection.execute(SQL(read_text("schema.sql")))
            _record(connection, migrations())
            return
        pending = [migration for migration in migrations() if migration.number not in applied]
        if pending:
            _check_stopped(connection)
        rewriting = [f"{migration.number}" for migration in pending if migration.rewrites]
        if rewriting and not rewrite:
            raise UpgradeRequired(
                f"the database was written by an earlier version, and migrations "
                f"{', '.join(rewriting)} rewrite it: run `moirae upgrade`"
            )
        for migration in pending:
            connection.execute(migration.statements)
            _record(connection, [migration])


def measure_database(connection: Connection) -> int:
    """The bytes of a database: a migration that rewrites data reads and writes at most these."""
    row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _check_stopped(connection: Connection) -> None:
    """Raise `UpgradeRequired` while a process of the version before runs: it knows other tables.

    A process that starts meanwhile waits: it migrates, too.
    """
    for role in _ROLES:
        row = connection.execute(_LOCK_ROLE, (f"moirae {role}",)).fetchone()
        if row is None or not row[0]:
            raise UpgradeRequired(
                f"the {role} process of an earlier version runs, and the database lacks migrations "
                "of this version: stop the workspace on all machines first"
            )


def _list_applied(connection: Connection) -> set[int]:
    """The numbers of the applied migrations; none before the first."""
    row = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    if row is None or row[0] is None:
        return set()
    rows = connection.execute("SELECT number FROM schema_migrations").fetchall()
    return {number for (number,) in rows}


def has_schema(connection: Connection) -> bool:
    """Whether a version of Moirae has used the database: each had this table from the start."""
    row = connection.execute("SELECT to_regclass('units')").fetchone()
    return row is not None and row[0] is not None


def _record(connection: Connection, applied: "tuple[Migration, ...] | list[Migration]") -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO schema_migrations (number, name) VALUES (%s, %s)",
            [(migration.number, migration.name) for migration in applied],
        )
