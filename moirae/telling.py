"""What a workspace is at, told on standard error to who waits for it to start, or to drain."""

import sys
import time
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import Connection

import sql
from archiver.catalog import Catalog
from moirae.process import processes

# Seconds between two lines at first, and at most: they come more seldom the longer a drain takes.
_FIRST, _LONGEST = 3.0, 30.0


class Telling:
    """Says once that a workspace has started; in a drain, now and then, how far that has come."""

    def __init__(self, drain: bool) -> None:
        self._drain = drain
        self._began = datetime.now(UTC)
        self._pause = _FIRST
        self._due = time.monotonic() + _FIRST
        self._said = ""

    def look(self, connection: Connection[Any]) -> None:
        """Say what is new; nothing while the database is away."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + self._pause
        try:
            line = _so_far(connection) if self._drain else self._started(connection)
        except psycopg.Error:
            return
        if line and line != self._said:
            print(f"moirae: {line}", file=sys.stderr, flush=True)
            self._said = line
        if self._drain:
            self._pause = min(self._pause * 1.2, _LONGEST)

    def _started(self, connection: Connection[Any]) -> str:
        live = next((one for one in processes(connection) if one["role"] == "live"), None)
        if live is None or live["started_at"] < self._began or live["state"] != "running":
            return ""
        self._due = float("inf")
        return "running; `moirae status` tells how it is"


def _so_far(connection: Connection[Any]) -> str:
    """How far a drain has come."""
    accounts = Catalog(connection).accounting()
    read = sum(account["read"] for account in accounts)
    alerts = connection.execute(sql.load("alerts")["counts"]).fetchone()
    recalls = dict(connection.execute(sql.load("recalls")["counts"]).fetchall())
    going = sum(recalls.get(state, 0) for state in ("waiting", "running"))
    if not read or alerts is None:
        return "starting"
    settled, detected = alerts[0], alerts[1]
    more = f"; {going:,} recalls go on" if going else ""
    return f"{read:,} records read, {settled + detected:,} events{more}"
