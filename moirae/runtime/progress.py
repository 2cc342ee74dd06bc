"""Progress lines on standard error while a workspace starts or drains."""

import sys
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection

import sql
from moirae.runtime.roles import list_processes

_FIRST_INTERVAL = 3.0  # seconds between the first two lines
_MAX_INTERVAL = 30.0  # seconds
_INTERVAL_GROWTH = 1.2  # factor: lines become rarer the longer a drain takes


class ProgressReporter:
    """Reports once that a workspace is running; in a drain, its progress at growing intervals."""

    def __init__(self, drain: bool) -> None:
        self._drain = drain
        self._baseline: tuple[int, int] | None = None  # records and events at the first report
        self._interval = _FIRST_INTERVAL
        self._next_report_at = time.monotonic() + _FIRST_INTERVAL
        self._last_line = ""

    def report(self, connection: Connection[Any]) -> None:
        """Print a line if one is due and differs from the last; none if the database fails."""
        now = time.monotonic()
        if now < self._next_report_at:
            return
        self._next_report_at = now + self._interval
        try:
            line = self._drain_line(connection) if self._drain else self._startup_line(connection)
        except psycopg.Error:
            return
        if line and line != self._last_line:
            with suppress(OSError):  # standard error may be closed
                print(f"moirae: {line}", file=sys.stderr, flush=True)
            self._last_line = line
        if self._drain:
            self._interval = min(self._interval * _INTERVAL_GROWTH, _MAX_INTERVAL)

    def _startup_line(self, connection: Connection[Any]) -> str:
        """Empty until the live process of this start is running."""
        processes_by_role = {process["role"]: process for process in list_processes(connection)}
        supervisor = processes_by_role["up"]
        live = processes_by_role.get("live")
        if live is None or live["state"] != "running":
            return ""
        if live["started_at"] < supervisor["started_at"]:
            return ""
        self._next_report_at = float("inf")
        return "running; `moirae status` shows the state of the workspace"

    def _drain_line(self, connection: Connection[Any]) -> str:
        """Records and events since the first report, and open recalls."""
        from archiver.ingest import Catalog

        records = sum(account["read"] for account in Catalog(connection).accounting())
        alert_counts = connection.execute(sql.load("alerts")["counts"]).fetchone()
        recalls_by_state = sql.TaskGateway(connection).count_by_state()
        events = 0
        if alert_counts is not None:
            events = alert_counts[0] + alert_counts[1]
        if self._baseline is None:
            self._baseline = records, events
        open_recalls = recalls_by_state.get("waiting", 0) + recalls_by_state.get("running", 0)
        if (records, events) == self._baseline and not open_recalls:
            return "starting"
        line = (
            f"{records - self._baseline[0]:,} records read, {events - self._baseline[1]:,} events"
        )
        if open_recalls:
            line += f"; {open_recalls:,} recalls open"
        return line
