"""Removal of what PostgreSQL keeps of deleted rows: dead pages, statistics, write-ahead log."""

import time
from contextlib import suppress

from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier

from sql.connection import Connection

_TABLES = SQL("""
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname IN ('public', 'dashboard') ORDER BY c.relname""")
_STATISTICS = ("pg_statistic", "pg_statistic_ext_data")
# ANALYZE leaves the statistics of a table that has become empty: samples of the deleted rows.
_CLEAR_STATISTICS = """
SELECT pg_clear_attribute_stats(schemaname::text, tablename::text, attname::text, inherited) FROM pg_stats
WHERE schemaname IN ('public', 'dashboard')"""
_CLEAR_STATISTICS_BEFORE_18 = """
DELETE FROM pg_statistic USING pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE starelid = c.oid AND n.nspname IN ('public', 'dashboard')"""
_CLEARING_VERSION = 180_000
# Sessions whose snapshot is from before transaction `x`: VACUUM keeps the rows that they may see.
_OLDER_SESSIONS = """
SELECT pid, application_name FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND greatest(age(backend_xmin), age(backend_xid)) > age(%(transaction)s::text::xid)
ORDER BY xact_start"""
_SETTINGS = {
    "wal_recycle": "off",  # segments of the log are removed, not used again as they are
    "min_wal_size": "32MB",
}
_LOCK_TIMEOUT = "30s"
_SESSION_TIMEOUT = 120.0  # seconds for older transactions to end
_POLL = 0.2  # seconds
_PAUSE = 1.0  # seconds


def rewrite_tables(connection: Connection, timeout: float = _SESSION_TIMEOUT) -> None:
    """Write all tables anew, and then their statistics: dead rows are in no file any more.

    Raises `sql.DatabaseError` if a session keeps a table locked, and `TimeoutError` if one has an
    older transaction for longer than `timeout` seconds.
    """
    tables = connection.execute(_TABLES).fetchall()
    _clear_statistics(connection)
    _await_older_transactions(connection, timeout)
    connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
    try:
        for schema, table in tables:
            connection.execute(SQL("VACUUM (FULL, ANALYZE) {}").format(Identifier(schema, table)))
        _await_older_transactions(connection, timeout)
        for table in _STATISTICS:
            connection.execute(SQL("VACUUM (FULL) {}").format(Identifier("pg_catalog", table)))
    finally:
        connection.execute("RESET lock_timeout")


def _clear_statistics(connection: Connection) -> None:
    if connection.info.server_version >= _CLEARING_VERSION:
        connection.execute(_CLEAR_STATISTICS)
        return
    with suppress(InsufficientPrivilege):  # for superusers alone
        connection.execute(_CLEAR_STATISTICS_BEFORE_18)


def _await_older_transactions(connection: Connection, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    current = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
    transaction = {"transaction": current and current[0]}
    while session := connection.execute(_OLDER_SESSIONS, transaction).fetchone():
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"session {session[0]} of the database ({session[1]}) has had a transaction open "
                f"for {timeout:.0f} s, which keeps deleted rows"
            )
        time.sleep(_POLL)


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
