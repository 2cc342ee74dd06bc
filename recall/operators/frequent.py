"""The values with the most rows, with bounds, from lists of the most frequent ones of each piece.

The operator FREQUENT (Golab, Sliding Window Query Processing over Data Streams, 2006, section 6.2):
a piece of history yields its most frequent values with their numbers of rows. A value on the list has
at least the sum of its counts, and at most that and, for each piece whose list it is not on, the
smallest count of that list. Without cut lists both are the number of rows. No I/O.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, NamedTuple

import pyarrow as pa

from recall.operators.kinds import group_key, sort_key
from recall.query import sql_names
from recall.query.split import LIST_LENGTH

# Values of all pieces together that are kept.
_MAX_VALUES = 10 * LIST_LENGTH
# Columns of partial answers: a value, the smallest number of its rows, and what the largest one adds.
_VALUE = "_g0"
_COUNT = "_a0_0"
_SLACK = "_slack"
_UNLISTED_KEY = b"unlisted"


class Bounds(NamedTuple):
    """Of the number of rows with a value."""

    at_least: int
    at_most: int


class FrequentValue(NamedTuple):
    """A value that may be among the first k. `certain`: it is."""

    value: Any
    bounds: Bounds
    certain: bool


@dataclass(frozen=True)
class FrequentValues:
    """The values on lists with their bounds, and how many rows any other value has at most."""

    bounds: Mapping[Any, Bounds] = field(default_factory=dict)
    unlisted: int = 0

    @staticmethod
    def of_piece(counts: Mapping[Any, int], length: int = LIST_LENGTH) -> "FrequentValues":
        """The list of a piece. `counts`: of all its values, or of the first `length` ones."""
        if len(counts) < length:
            return FrequentValues({value: Bounds(n, n) for value, n in counts.items()})
        listed = nlargest(length, counts.items(), key=lambda item: item[1])
        return FrequentValues({value: Bounds(n, n) for value, n in listed}, listed[-1][1])

    def merge(self, other: "FrequentValues", max_values: int = _MAX_VALUES) -> "FrequentValues":
        """Those of two parts of history."""
        merged: dict[Any, Bounds] = {}
        for value in {**self.bounds, **other.bounds}:
            a = self.bounds.get(value, Bounds(0, self.unlisted))
            b = other.bounds.get(value, Bounds(0, other.unlisted))
            merged[value] = Bounds(a.at_least + b.at_least, a.at_most + b.at_most)
        unlisted = self.unlisted + other.unlisted
        if len(merged) > max_values:
            highest = nlargest(max_values + 1, merged.items(), key=lambda item: item[1].at_most)
            unlisted = max(unlisted, highest.pop()[1].at_most)
            merged = dict(highest)
        return FrequentValues(merged, unlisted)

    def first(self, k: int) -> list[FrequentValue]:
        """The values that may be among the k with the most rows; of equal numbers, smaller values."""
        highest = sorted((-b.at_most, sort_key(value)) for value, b in self.bounds.items())
        lowest = sorted((-b.at_least, sort_key(value)) for value, b in self.bounds.items())
        first: list[FrequentValue] = []
        for value, bounds in self.bounds.items():
            key = sort_key(value)
            if bisect_left(lowest, (-bounds.at_most, key)) >= k:
                continue  # so many are certainly before it
            before = bisect_left(highest, (-bounds.at_least, key))
            if bounds.at_most > bounds.at_least:
                before -= 1  # itself
            is_listed = not self.unlisted or bounds.at_least > self.unlisted
            first.append(FrequentValue(value, bounds, before < k and is_listed))
        return first


def merge_frequent(accumulator: pa.Table | None, partial: pa.Table | None) -> pa.Table | None:
    """Merge two partial answers of one event: lists of pieces, or what this returned."""
    tables = [table for table in (accumulator, partial) if table is not None and len(table)]
    if not tables:
        return accumulator if accumulator is not None else partial
    merged, values = _read(tables[0])
    for table in tables[1:]:
        other, other_values = _read(table)
        merged = merged.merge(other)
        values |= other_values
    schema = tables[0].schema
    bounds = merged.bounds.values()
    columns = {
        sql_names.EID: pa.array([tables[0][sql_names.EID][0].as_py()] * len(bounds)),
        _VALUE: pa.array([values[key] for key in merged.bounds], schema.field(_VALUE).type),
        _COUNT: pa.array([bound.at_least for bound in bounds], pa.int64()),
        _SLACK: pa.array([bound.at_most - bound.at_least for bound in bounds], pa.int64()),
    }
    metadata = {**(schema.metadata or {}), _UNLISTED_KEY: str(merged.unlisted).encode()}
    return pa.table(columns).replace_schema_metadata(metadata)


def _read(table: pa.Table) -> tuple[FrequentValues, dict[Any, Any]]:
    """The values of a table by their keys, and the values of the keys."""
    values: dict[Any, Any] = {}
    counts: dict[Any, int] = {}
    rows: Iterable[tuple[Any, int]] = zip(
        table[_VALUE].to_pylist(), table[_COUNT].to_pylist(), strict=True
    )
    for value, count in rows:
        key = group_key(value)
        values[key] = value
        counts[key] = counts.get(key, 0) + count
    metadata = table.schema.metadata or {}
    if _UNLISTED_KEY not in metadata:
        return FrequentValues.of_piece(counts), values
    slack = dict(zip(counts, table[_SLACK].to_pylist(), strict=True))
    bounds = {key: Bounds(n, n + slack[key]) for key, n in counts.items()}
    return FrequentValues(bounds, int(metadata[_UNLISTED_KEY])), values


def frequent_values(accumulator: pa.Table, k: int) -> pa.Table:
    """The table that `merge` of the query reads: of values that may be among the first k."""
    merged, values = _read(accumulator)
    first = merged.first(k)
    return pa.table(
        {
            sql_names.EID: pa.array([accumulator[sql_names.EID][0].as_py()] * len(first)),
            _VALUE: pa.array(
                [values[row.value] for row in first], accumulator.schema.field(_VALUE).type
            ),
            "_v0": pa.array([row.bounds.at_least for row in first], pa.int64()),
            "_v1": pa.array([row.bounds.at_most for row in first], pa.int64()),
            "_v2": pa.array([row.certain for row in first], pa.bool_()),
        }
    )
