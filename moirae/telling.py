"""What a workspace is at, told on standard error to who waits for it to start, or to drain."""

import sys
import time
from contextlib import suppress
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
        self._before: tuple[int, int] | None = None
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
            line = self._so_far(connection) if self._drain else self._started(connection)
        except psycopg.Error:
            return
        if line and line != self._said:
            with suppress(OSError):  # nobody reads it any more
                print(f"moirae: {line}", file=sys.stderr, flush=True)
            self._said = line
        if self._drain:
            self._pause = min(self._pause * 1.2, _LONGEST)

    def _started(self, connection: Connection[Any]) -> str:
        known = {process["role"]: process for process in processes(connection)}
        live, supervisor = known.get("live"), known["up"]
        if live is None or live["started_at"] < supervisor["started_at"] or live["state"] != "running":
            return ""
        self._due = float("inf")
        return "running; `moirae status` tells how it is"

    def _so_far(self, connection: Connection[Any]) -> str:
        """How far a drain has come, since it was first looked at."""
        read = sum(account["read"] for account in Catalog(connection).accounting())
        alerts = connection.execute(sql.load("alerts")["counts"]).fetchone()
        recalls = dict(connection.execute(sql.load("recalls")["counts"]).fetchall())
        events = 0 if alerts is None else alerts[0] + alerts[1]
        if self._before is None:
            self._before = read, events
        going = sum(recalls.get(state, 0) for state in ("waiting", "running"))
        if (read, events) == self._before and not going:
            return "starting"
        more = f"; {going:,} recalls go on" if going else ""
        return f"{read - self._before[0]:,} records read, {events - self._before[1]:,} events{more}"
