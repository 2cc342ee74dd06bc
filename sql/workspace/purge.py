"""Removal of what PostgreSQL keeps of deleted rows: dead pages, statistics, write-ahead log."""

import time

from psycopg.sql import SQL, Identifier

from sql.connection import Connection

_TABLES = SQL("""
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname IN ('public', 'dashboard') ORDER BY c.relname""")
_STATISTICS = ("pg_statistic", "pg_statistic_ext_data")
_SETTINGS = {
    "wal_recycle": "off",  # segments of the log are removed, not used again as they are
    "min_wal_size": "32MB",
}
_LOCK_TIMEOUT = "30s"
_PAUSE = 1.0  # seconds


def rewrite_tables(connection: Connection) -> None:
    """Write all tables anew, and then their statistics: dead rows are in no file any more.

    Raises `sql.DatabaseError`, as if a session keeps a table.
    """
    tables = connection.execute(_TABLES).fetchall()
    connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
    try:
        for schema, table in tables:
            connection.execute(SQL("VACUUM (FULL, ANALYZE) {}").format(Identifier(schema, table)))
        for table in _STATISTICS:
            connection.execute(SQL("VACUUM (FULL) {}").format(Identifier("pg_catalog", table)))
    finally:
        connection.execute("RESET lock_timeout")


def remove_log(connection: Connection) -> None:
    """Remove or overwrite the write-ahead log. For a superuser: of the embedded database.

    The files of deleted and rewritten tables are removed by the checkpoint.
    """
    for name, value in _SETTINGS.items():
        connection.execute(SQL("ALTER SYSTEM SET {} = {}").format(SQL(name), SQL(f"'{value}'")))
    connection.execute("SELECT pg_reload_conf()")
    try:
        time.sleep(_PAUSE)  # until the processes of the server have read the settings
        segments = connection.execute("SELECT count(*) FROM pg_ls_waldir()").fetchone()
        # A segment that was begun before is overwritten, the rest of it with zeros, when the next
        # begins.
        for _ in range(int(segments[0]) + 2 if segments else 2):
            connection.execute("SELECT pg_logical_emit_message(true, 'moirae', 'erasure')")
            connection.execute("SELECT pg_switch_wal()")
        for _ in range(2):
            connection.execute("CHECKPOINT")
    finally:
        for name in _SETTINGS:
            connection.execute(SQL("ALTER SYSTEM RESET {}").format(SQL(name)))
        connection.execute("SELECT pg_reload_conf()")
