"""The rows of the table `alerts`, from the alerts that are stored."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import sql
from archiver.time_range import TimeRange
from archiver.times import END_OF_TIME, optional_datetime
from moirae.alerts.event import canonical_json
from moirae.rules import ALERTS
from recall.query.sql_names import VALID_FROM, VALID_TO
from sql.alerts import AlertGateway, AlertStateRow

_TIME = pa.timestamp("us", tz="UTC")
_LAST_TIME = datetime(9999, 12, 31, tzinfo=UTC)
_TEXTS = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    {
        "ts": _TIME,
        "id": pa.string(),
        "eid": pa.string(),
        "rule": pa.string(),
        "alert": pa.string(),
        "state": pa.string(),
        "labels": _TEXTS,
        "key": _TEXTS,
        "starts_at": _TIME,
    }
)


class AlertStream:
    """When alerts entered their states, see `moirae.rules.alert_table`."""

    def __init__(self, connection: sql.Connection) -> None:
        self._gateway = AlertGateway(connection)

    def read(self, time_range: TimeRange, rules: Sequence[str] | None = None) -> pa.Table:
        """The changes of state in a range of event time. `rules`: only of these; None: of all."""
        rows = self._gateway.list_changes_of_state(
            optional_datetime(time_range.start), optional_datetime(time_range.end), rules
        )
        return make_alert_table(rows)

    def read_valid(self) -> pa.Table:
        """All changes of state as versions of a relation: one is valid after its time."""
        rows = self.read(TimeRange(None, END_OF_TIME))
        after = pc.add(rows["ts"].cast(pa.int64()), 1).cast(rows["ts"].type)
        until = pa.array([_LAST_TIME] * len(rows), rows["ts"].type)
        return rows.append_column(VALID_FROM, after).append_column(VALID_TO, until)


class TablesOfRecalls:
    """The relations that recalls read, and `alerts` as one: see `moirae.rules.alert_table`.

    `relation` returns all versions of a declared relation, `declared`: their names.
    """

    def __init__(
        self,
        connection: sql.Connection,
        relation: Callable[[str], pa.Table],
        declared: Collection[str],
    ) -> None:
        self._alerts = AlertStream(connection)
        self._relation = relation
        self._declared = frozenset(declared)

    def table(self, name: str) -> pa.Table:
        """All versions of a relation."""
        if name in self.unversioned:
            return self._alerts.read_valid()
        return self._relation(name)

    @property
    def unversioned(self) -> frozenset[str]:
        """Those whose rows may change."""
        return frozenset({ALERTS}) - self._declared


def make_alert_table(rows: Iterable[AlertStateRow]) -> pa.Table:
    """Changes of state as a table."""
    records = []
    for row in rows:
        records.append(
            {
                "ts": row.ts,
                "id": str(row.id),
                "eid": str(row.eid),
                "rule": row.rule,
                "alert": row.rule.partition("/")[2],
                "state": row.state,
                "labels": _to_texts(row.labels),
                "key": _to_texts(row.key),
                "starts_at": row.starts_at,
            }
        )
    return pa.Table.from_pylist(records, _SCHEMA)


def _to_texts(values: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """A map of texts; other values as in JSON."""
    texts: list[tuple[str, str | None]] = []
    for name, value in values.items():
        is_text = value is None or isinstance(value, str)
        texts.append((name, value if is_text else canonical_json([value])[1:-1]))
    return texts
