"""Results of plain queries as columns of events, for each rule of a group. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from archiver.time_range import TimeRange
from archiver.times import micros_column, to_micros
from moirae.alerts import (
    Event,
    EventColumns,
    EventKey,
    EventRow,
    Positions,
    deduplicate,
    make_event,
    make_fingerprint,
)
from moirae.evaluation.json_values import to_json_values
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.rule_groups import RuleGroup
from recall.errors import SparkRequired
from recall.query.plain import EXACT_TYPES

_MIN_TIME = to_micros(datetime.min.replace(tzinfo=UTC))
_MAX_TIME = to_micros(datetime.max.replace(tzinfo=UTC))
_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # odd: different numbers stay different modulo 2**64


class _Numbered(NamedTuple):
    """`numbers`: of each row, equal for equal values. `first`: the first row of each number."""

    numbers: Positions
    first: Positions


def divide_result(
    group: RuleGroup, table: pa.Table, time_range: TimeRange
) -> Iterator[tuple[ActiveRule, list[EventColumns]]]:
    """The events of each rule with ts in a range. `table`: the result of the group's query.

    Raises `SparkRequired` for times that Python has not, and for keys of inexact types.
    """
    result = _Result(group, table)
    selected = np.flatnonzero(time_range.mask(result.times))
    rule_numbers = table["rule"].to_numpy()[selected]
    selected = selected[np.argsort(rule_numbers, kind="stable")]
    counts = np.bincount(rule_numbers, minlength=len(group.rules))
    bounds = [0, *np.cumsum(counts).tolist()]
    for rule, (start, end) in zip(group.rules, pairwise(bounds), strict=True):
        yield rule, result.find_events(rule, selected[start:end])


class _Result:
    def __init__(self, group: RuleGroup, table: pa.Table) -> None:
        query = group.plain_query
        self.times = micros_column(table, "ts")
        self._types: Mapping[str, str] = dict(
            zip(query.output_names, query.output_types, strict=True)
        )
        self._columns: dict[str, pa.ChunkedArray] = {}
        for number, name in enumerate(query.output_names):
            self._columns[name] = table[f"c{number}"]
            if self._types[name] == "timestamp":
                _check_times(table[f"c{number}"])
        self._numbered: dict[Sequence[str], _Numbered] = {}
        self._keys: dict[Sequence[str], list[EventKey]] = {}

    def find_events(self, rule: ActiveRule, positions: Positions) -> list[EventColumns]:
        """The events in some rows: each row that is alone in key and time, and those of the others."""
        key, event_id = rule.definition.key, rule.definition.id
        is_shared = self._find_shared(key, positions)
        if not set(key) <= set(event_id):
            is_shared |= self._find_shared(event_id, positions)
        parts = [self._make_columns(rule, positions[~is_shared])]
        if is_shared.any():
            rows = self._make_rows(positions[is_shared], self._types)
            parts.append(EventColumns.of_events(deduplicate(rule.name, event_id, key, rows)))
        return parts

    def _find_shared(self, names: Sequence[str], positions: Positions) -> npt.NDArray[np.bool_]:
        """Which rows have the values of some columns, and the time, of another one.

        Rarely also others: only what is mixed of both is compared.
        """
        mixed = self._number(names).numbers[positions] * _FACTOR + self.times[positions]
        ordered = np.sort(mixed)
        shared = ordered[1:][ordered[1:] == ordered[:-1]]
        return np.isin(mixed, shared)

    def _number(self, names: Sequence[str]) -> _Numbered:
        if names in self._numbered:
            return self._numbered[names]
        count = len(self.times)
        numbers = np.zeros(count, np.int64)
        for name in names:
            if name not in self._types:
                continue  # as NULL in all rows
            if self._types[name] not in EXACT_TYPES:
                raise SparkRequired(f"key {name} of an inexact type")
            codes, size = _encode(self._columns[name])
            numbers, _ = _encode(pa.array(numbers * size + codes))
        # Of several rows the one that is written last, the first one, stays.
        first = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
        first[numbers[::-1]] = np.arange(count)[::-1]
        self._numbered[names] = _Numbered(numbers, first)
        return self._numbered[names]

    def _make_columns(self, rule: ActiveRule, positions: Positions) -> EventColumns:
        """Of rows that are each an event."""
        names = rule.definition.key
        numbered = self._number(names)
        if names not in self._keys:
            rows = self._make_rows(numbered.first, names)
            self._keys[names] = [
                EventKey(make_fingerprint(row.attributes), row.attributes) for row in rows
            ]
        make_events = partial(self._make_events, rule, positions)
        return EventColumns(
            self.times[positions], self._keys[names], numbered.numbers[positions], make_events
        )

    def _make_events(
        self, rule: ActiveRule, positions: Positions, selected: Positions
    ) -> list[Event]:
        definition = rule.definition
        make = partial(make_event, rule.name, definition.id, definition.key)
        return list(map(make, self._make_rows(positions[selected], self._types)))

    def _make_rows(self, positions: Positions, names: Iterable[str]) -> list[EventRow]:
        """The rows at some positions, with some columns; those that there are not are NULL."""
        values_by_name: dict[str, Sequence[Any]] = {}
        for name in names:
            values_by_name[name] = [None] * len(positions)
            if name in self._types:
                column = self._columns[name].take(pa.array(positions))
                values_by_name[name] = to_json_values(self._types[name], column)
        rows: list[EventRow] = []
        for number, ts in enumerate(self.times[positions].tolist()):
            attributes = {name: values[number] for name, values in values_by_name.items()}
            rows.append(EventRow(ts, attributes))
        return rows


def _encode(column: pa.Array | pa.ChunkedArray) -> tuple[Positions, int]:
    """A number for each distinct value, and how many there are."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    return indices.astype(np.int64), max(1, len(encoded.dictionary))


def _check_times(column: pa.ChunkedArray) -> None:
    """Raises `SparkRequired`."""
    bounds = pc.min_max(column.cast(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and not _MIN_TIME <= low <= high <= _MAX_TIME:
        raise SparkRequired("a time outside of the years 1 to 9999")
