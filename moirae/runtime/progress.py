"""What a workspace is at, told on standard error to who waits for it to start, or to drain."""

import sys
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

import sql
from moirae.runtime.roles import list_processes

# Seconds between two lines at first, and at most: they come more seldom the longer a drain takes.
_FIRST_INTERVAL, _MAX_INTERVAL = 3.0, 30.0


class ProgressReporter:
    """Says once that a workspace has started; in a drain, now and then, how far that has come."""

    def __init__(self, drain: bool) -> None:
        self._drain = drain
        self._baseline: tuple[int, int] | None = None
        self._interval = _FIRST_INTERVAL
        self._next_report_at = time.monotonic() + _FIRST_INTERVAL
        self._last_line = ""

    def report(self, connection: Connection[Any]) -> None:
        """Say what is new; nothing while the database is away."""
        now = time.monotonic()
        if now < self._next_report_at:
            return
        self._next_report_at = now + self._interval
        try:
            line = self._drain_line(connection) if self._drain else self._startup_line(connection)
        except psycopg.Error:
            return
        if line and line != self._last_line:
            with suppress(OSError):  # nobody reads it any more
                print(f"moirae: {line}", file=sys.stderr, flush=True)
            self._last_line = line
        if self._drain:
            self._interval = min(self._interval * 1.2, _MAX_INTERVAL)

    def _startup_line(self, connection: Connection[Any]) -> str:
        known = {process["role"]: process for process in list_processes(connection)}
        live, supervisor = known.get("live"), known["up"]
        if (
            live is None
            or live["started_at"] < supervisor["started_at"]
            or live["state"] != "running"
        ):
            return ""
        self._next_report_at = float("inf")
        return "running; `moirae status` tells how it is"

    def _drain_line(self, connection: Connection[Any]) -> str:
        """How far a drain has come, since it was first looked at."""
        from archiver.ingest import Catalog

        read = sum(account["read"] for account in Catalog(connection).accounting())
        alerts = connection.execute(sql.load("alerts")["counts"]).fetchone()
        recalls = dict(connection.execute(sql.load("recalls")["counts"]).fetchall())
        events = 0 if alerts is None else alerts[0] + alerts[1]
        if self._baseline is None:
            self._baseline = read, events
        going = sum(recalls.get(state, 0) for state in ("waiting", "running"))
        if (read, events) == self._baseline and not going:
            return "starting"
        more = f"; {going:,} recalls go on" if going else ""
        return f"{read - self._baseline[0]:,} records read, {events - self._baseline[1]:,} events{more}"
