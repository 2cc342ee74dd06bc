"""The table `alerts`: when the alerts of all rules became pending, fired and were resolved. No I/O.

A query about an event reads the rows before it: what is known then never changes, so its answer is
the same whenever it is computed. What an operator or `where` did to an alert is no part of it.
"""

from dataclasses import replace

from recall.query import Tables

ALERTS = "alerts"
ALERTS_TIME = "ts"
ALERT_COLUMNS = {
    ALERTS_TIME: "timestamp",
    "id": "string",
    "eid": "string",
    "rule": "string",
    "alert": "string",
    "state": "string",
    "labels": "map<string,string>",
    "key": "map<string,string>",
    "starts_at": "timestamp",
}
"""Its columns with Spark's types. `ts`: the event time at which the alert entered `state`."""


def add_alerts(tables: Tables) -> Tables:
    """The tables with `alerts`, unless the workspace has a table of this name."""
    if ALERTS in tables.streams or ALERTS in tables.relations or ALERTS in tables.derived:
        return tables
    return replace(
        tables,
        streams={**tables.streams, ALERTS: ALERTS_TIME},
        earlier=tables.earlier | {ALERTS},
    )
