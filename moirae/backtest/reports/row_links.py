"""Queries that show the rows behind an alert of a back-test. No I/O."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from archiver.times import from_micros, to_micros
from moirae.backtest.alerts import BacktestAlert
from moirae.config import Settings
from moirae.evaluation.plan import ActiveRule


def list_row_queries(settings: Settings, rule: ActiveRule, alert: BacktestAlert) -> dict[str, str]:
    """A query for `moirae query` by stream: the rows that events of the alert were decided by.

    Of keys, those are compared that are columns of the stream under the same name.
    """
    start = from_micros(to_micros(alert.starts_at) - rule.shape.reach)
    end = from_micros(to_micros(alert.last_at) + max(rule.shape.lag, 0))
    queries: dict[str, str] = {}
    for stream in sorted(rule.shape.streams & settings.streams.keys()):
        declared = settings.streams[stream]
        conditions = [f"{declared.time} BETWEEN {_literal(start)} AND {_literal(end)}"]
        for name in rule.definition.key:
            if name in declared.columns and name != declared.time:
                conditions.append(_equals(name, alert.attributes))
        queries[stream] = f"SELECT * FROM {stream} WHERE {' AND '.join(conditions)}"
    return queries


def _equals(name: str, attributes: Mapping[str, Any]) -> str:
    value = attributes.get(name)
    if value is None:
        return f"{name} IS NULL"
    return f"{name} = {_literal(value)}"


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, bool | int | float):
        return str(value).upper() if isinstance(value, bool) else repr(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
