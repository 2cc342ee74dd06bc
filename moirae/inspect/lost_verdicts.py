"""Rows over which rules have no verdict, because they exceeded their limits."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sql
from sql.rules import LostVerdictGateway

_MAX_RULES = 20  # with the most lost rows


def list_lost_verdicts(
    connection: sql.Connection, since: datetime | None = None
) -> list[dict[str, Any]]:
    """The rules that lost rows, with counts. `since`: only what was lost from this time on."""
    counts = LostVerdictGateway(connection).count_by_rule(since)
    return list(map(asdict, counts[:_MAX_RULES]))


def describe_lost_verdicts(lost: Mapping[str, Any]) -> str:
    """`rule g/r lost its verdict over 2 rows from 2026-01-01T00:00:00+00:00 to …: reason`."""
    rows = "1 row" if lost["rows"] == 1 else f"{lost['rows']:,} rows"
    return (
        f"rule {lost['rule']} lost its verdict over {rows} from {lost['first_ts'].isoformat()} to "
        f"{lost['last_ts'].isoformat()}: {lost['reason']} (see `moirae rules show {lost['rule']}`)"
    )
