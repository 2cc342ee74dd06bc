"""The table `alerts`: when the alerts of all rules became pending, fired and were resolved. No I/O.

A query about an event reads the rows before it: what is known then never changes, so its answer is
the same whenever it is computed. What an operator or `where` did to an alert is no part of it.
"""

from dataclasses import replace

from recall.query import Tables, sql_names, tables_used

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
ALERT_VERSION_COLUMNS = {**ALERT_COLUMNS, **sql_names.VALIDITY_TYPES}
"""Those of the table as recalls read it: a relation whose rows are valid once they are past."""


def has_own_alerts(tables: Tables) -> bool:
    """Whether the workspace has a table of this name: then there is no other."""
    return ALERTS in {*tables.streams, *tables.relations, *tables.derived}


def add_past_alerts(tables: Tables, sql: str) -> Tables:
    """The tables with `alerts` as a recall reads it, if it does. Raises `Unsupported`."""
    if not reads_past_alerts(sql, tables):
        return tables
    return replace(tables, relations=tables.relations | {ALERTS})


def reads_past_alerts(sql: str, tables: Tables) -> bool:
    """Whether a recall reads the alerts of rules. Raises `Unsupported`."""
    return not has_own_alerts(tables) and bool(tables_used(sql, {ALERTS}))


def add_alerts(tables: Tables) -> Tables:
    """The tables with `alerts`, unless the workspace has a table of this name."""
    if has_own_alerts(tables):
        return tables
    return replace(
        tables,
        streams={**tables.streams, ALERTS: ALERTS_TIME},
        earlier=tables.earlier | {ALERTS},
    )
