"""What history says of alerts, for their messages."""

from collections.abc import Mapping, Sequence
from typing import Any

import sql
from moirae.notify.alert import NotifiedAlert


def find_history(
    connection: sql.Connection, alerts: Sequence[NotifiedAlert]
) -> Mapping[str, Mapping[str, Any]]:
    """What is known of alerts, by ID."""
    return {}
