"""Rows over which a rule has no verdict, because it exceeded its limit. No I/O.

A row is identified by its values: equal rows have the same verdict.
"""

import hashlib
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from archiver.times import Micros, micros_column, to_micros
from moirae.evaluation.plan import ActiveRule, RuleVersion

_MAX_TEXT = 1_000  # characters of a text in a stored row
_HASH_BYTES = 16
MAX_ROWS = 10_000  # of a version and stream that are remembered, the newest


class RowKey(NamedTuple):
    """The event time of a row, and a hash of its values."""

    ts: Micros
    row_hash: str


class LostRow(NamedTuple):
    """A row that a rule lost. `values`: by column. `reason`: why it has no verdict."""

    rule: ActiveRule
    stream: str
    values: Mapping[str, Any]
    reason: str

    @property
    def key(self) -> RowKey:
        """What identifies the row."""
        return RowKey(to_micros(self.values[self.time_column]), hash_values(self.values))

    @property
    def time_column(self) -> str:
        """The column with the event time."""
        return self.rule.tables.streams[self.stream]

    def describe(self) -> dict[str, Any]:
        """The values as JSON; long texts are shortened."""
        described = {name: _shorten(value) for name, value in self.values.items()}
        values: dict[str, Any] = orjson.loads(orjson.dumps(described, default=str))
        return values


def _shorten(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_MAX_TEXT]}… ({len(value):,} characters)"
    return value


def hash_values(values: Mapping[str, Any]) -> str:
    """A hash of the values of a row, whatever the order of its columns."""
    plain = {
        name: to_micros(value) if isinstance(value, datetime) else value
        for name, value in values.items()
    }
    text = repr(sorted(plain.items())).encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=_HASH_BYTES).hexdigest()


class LostRows:
    """The rows that rules have lost. They are left out when the rules are evaluated again."""

    def __init__(self) -> None:
        self._keys: dict[tuple[RuleVersion, str], dict[Micros, set[str]]] = {}

    def add(self, version: RuleVersion, stream: str, key: RowKey) -> bool:
        """Returns whether the row was not known."""
        times = self._keys.setdefault((version, stream), {})
        keys = times.setdefault(key.ts, set())
        is_new = key.row_hash not in keys
        keys.add(key.row_hash)
        if len(times) > MAX_ROWS:
            del times[next(iter(times))]
        return is_new

    @property
    def versions(self) -> set[RuleVersion]:
        """The rules that have lost rows."""
        return {version for version, _ in self._keys}

    def list_streams(self, rule: ActiveRule) -> list[str]:
        """The streams of which a rule has lost rows."""
        return [
            stream for stream in rule.shape.streams if (rule.rule_version, stream) in self._keys
        ]

    def list_times(self, rule: ActiveRule, stream: str) -> Sequence[Micros]:
        """The event times of the rows that a rule has lost."""
        return list(self._keys[rule.rule_version, stream])

    def remove_from(self, rule: ActiveRule, stream: str, table: pa.Table) -> pa.Table:
        """The rows of a table without those that a rule has lost; the same table if it has none."""
        keys = self._keys[rule.rule_version, stream]
        return _remove_keys(table, rule.tables.streams[stream], keys)

    def retain(self, versions: set[RuleVersion]) -> None:
        """Forget the rows of all other versions."""
        for key in [key for key in self._keys if key[0] not in versions]:
            del self._keys[key]


def remove_rows(table: pa.Table, rows: Sequence[LostRow]) -> pa.Table:
    """The rows of a table without some rows that a rule of its stream lost."""
    keys: dict[Micros, set[str]] = {}
    for ts, row_hash in (row.key for row in rows):
        keys.setdefault(ts, set()).add(row_hash)
    return _remove_keys(table, rows[0].time_column, keys)


def _remove_keys(table: pa.Table, time_column: str, keys: Mapping[Micros, Set[str]]) -> pa.Table:
    times = micros_column(table, time_column)
    lost: list[int] = []
    for position in np.flatnonzero(np.isin(times, list(keys))).tolist():
        (values,) = table.slice(position, 1).to_pylist()
        if hash_values(values) in keys[int(times[position])]:
            lost.append(position)
    if not lost:
        return table
    is_remaining = np.ones(len(table), bool)
    is_remaining[lost] = False
    return table.filter(pa.array(is_remaining))
