"""What the demo shows: alerts as they come, and a summary at the end."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row
from rich.console import Console
from rich.text import Text

import sql
from archiver.catalog import Catalog

_ALERTS = sql.load("alerts")


def print_alert(connection: Connection[Any], since: datetime, told: Console) -> datetime:
    """Print alerts that began to fire after a moment by the clock; returns the moment up to which was looked."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_ALERTS["raised"], {"since": since}).fetchall()
    for row in rows:
        delay = (row["raised_at"] - row["starts_at"]).total_seconds()
        told.print(
            Text.assemble(
                (f" {row['labels'].get('severity', 'alert').upper():<7}", "bold red"),
                (f" {row['labels']['alertname']:<16} ", "bold"),
                row["annotations"].get("summary", ""),
                (f"  {row['starts_at']:%H:%M:%S}Z +{delay:.1f} s", "dim"),
            )
        )
    moments: list[datetime] = [since, *(row["raised_at"] for row in rows)]
    return max(moments)


def summary(connection: Connection[Any], live_from: datetime) -> dict[str, Any]:
    """The demo's figures. Latency is from the event's time to the alert's row, of live alerts."""
    accounts = Catalog(connection).accounting()
    total = {name: sum(a[name] for a in accounts) for name in ("read", "archived", "duplicates")}
    dead = sum(a["malformed"] + a["quarantined"] + a["conflicts"] for a in accounts)
    with connection.cursor(row_factory=dict_row) as cursor:
        counts = cursor.execute(_ALERTS["counts"]).fetchone()
        delays = cursor.execute(_ALERTS["delays"], {"since": live_from}).fetchone()
    assert counts is not None and delays is not None
    states = counts["alerts"]
    return {
        "accounting": {**total, "dead_lettered": dead},
        "events": counts["settled_events"],
        "alerts": sum(n for state, n in states.items() if state in ("firing", "resolved", "provisional")),
        "alerts_by_state": states,
        "latency_ms": {"event_to_alert": {"p50": delays["p50"], "p99": delays["p99"], "alerts": delays["alerts"]}},
    }


class Report:
    """The words at the end."""

    def __init__(self, told: Console) -> None:
        self._told = told

    def end(self, result: dict[str, Any], directory: Path) -> None:
        """Figures, and where to look further."""
        account, delay = result["accounting"], result["latency_ms"]["event_to_alert"]
        self._told.print(
            f"\n{account['read']:,} records read, {account['archived']:,} archived, {account['duplicates']:,} "
            f"duplicates, {account['dead_lettered']:,} refused; {result['events']:,} events, "
            f"{result['alerts']:,} alerts."
        )
        if delay["alerts"]:
            self._told.print(
                f"From event to alert: {timedelta(milliseconds=delay['p50']).total_seconds():.2f} s in the middle, "
                f"{timedelta(milliseconds=delay['p99']).total_seconds():.2f} s at the 99th percentile."
            )
        self._told.print(f"Look around: cd {directory}; moirae status; moirae alerts list; moirae chunks list")
