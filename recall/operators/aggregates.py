"""Partial answers of many groups as tables: merging them piece by piece, and their final values."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from recall.operators.arrow_types import arrow_type
from recall.operators.frequent import frequent_values, merge_frequent
from recall.operators.kinds import MERGE_FUNCTIONS, Parts, final_value, group_key
from recall.operators.limits import check_limits
from recall.operators.squares import read_sample, square_columns, with_sample, with_squares
from recall.query import sql_names
from recall.query.split import SKETCH_KINDS, Split, SplitAggregate

# Aggregates whose value has the type of their first part.
_PART_TYPED_KINDS = (
    "sum",
    "min",
    "max",
    "min_by",
    "max_by",
    "bit_and",
    "bit_or",
    "bit_xor",
    "collect_list",
    "collect_set",
)


def merge_tables(
    split: Split,
    accumulator: pa.Table | None,
    partial: pa.Table | None,
    turn_seconds: float | None = None,
) -> pa.Table | None:
    """Merge two tables of partial answers into one, with a row for each event and group.

    The tables have the columns `_eid`, groups and parts of aggregates. Plain rows are concatenated;
    the `merge` of their query cuts them.

    `partial`: of the history read in one turn; None: nothing was found there. `turn_seconds`: its
    length, if estimates are needed. Raises `LimitExceeded`.

    The partial answer of a query that stays whole is of all pieces so far, and takes the place of
    the other.
    """
    if split.whole is not None:
        if partial is not None:
            check_limits(split, partial)
        return partial
    if split.top is not None:
        return merge_frequent(accumulator, partial)
    sample = read_sample(accumulator)
    if turn_seconds is not None:
        sample = sample.add_turn(turn_seconds)
        if partial is not None:
            partial = with_squares(split, partial, turn_seconds)
    if accumulator is None or not accumulator.num_columns:
        merged = partial
    elif partial is None:
        merged = accumulator
    elif split.selects_rows:
        merged = pa.concat_tables([accumulator, partial.cast(accumulator.schema)])
        merged = _keep_newest(split, merged)
    else:
        merged = _merge_groups(split, accumulator, partial)
    if merged is not None:
        check_limits(split, merged)
    if turn_seconds is None:
        return merged
    if merged is None:
        merged = pa.table({})
    return with_sample(merged, sample)


def _keep_newest(split: Split, rows: pa.Table) -> pa.Table:
    """As many rows as the answer has, if the newest ones are wanted."""
    if not split.newest_first or split.limit is None or len(rows) <= split.limit:
        return rows
    order = pc.sort_indices(rows, [(sql_names.order_column(0), "descending")])
    return rows.take(order[: split.limit])


class _GroupMerger:
    """Merges rows of one event and group. `squares`: columns that are added up."""

    def __init__(self, split: Split, squares: Sequence[str]) -> None:
        self._aggregates = split.aggregates
        self._key_columns = [sql_names.EID, *split.groups]
        self._squares = squares
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(self, row: dict[str, Any]) -> None:
        key = tuple(group_key(row[name]) for name in self._key_columns)
        merged = self._rows.get(key)
        if merged is None:
            self._rows[key] = row
            return
        for aggregate in self._aggregates:
            columns = aggregate.part_columns
            merge = MERGE_FUNCTIONS[aggregate.kind]
            parts = merge(_parts(merged, columns), _parts(row, columns))
            merged.update(zip(columns, parts, strict=True))
        for name in self._squares:
            merged[name] += row[name]

    def to_table(self, schema: pa.Schema) -> pa.Table:
        rows = list(self._rows.values())
        for aggregate in self._aggregates:
            if aggregate.kind not in SKETCH_KINDS:
                continue
            column = aggregate.part_columns[0]
            for row in rows:
                if isinstance(row[column], bytes):
                    row[column] = [row[column]]
        return pa.Table.from_pylist(rows, schema=schema)


def _parts(row: Mapping[str, Any], columns: Sequence[str]) -> Parts:
    return tuple(row[column] for column in columns)


def _merge_groups(split: Split, accumulator: pa.Table, partial: pa.Table) -> pa.Table:
    squares = []
    for name in square_columns(split):
        if name in accumulator.column_names and name in partial.column_names:
            squares.append(name)
    merger = _GroupMerger(split, squares)
    for table in (accumulator, partial):
        for row in table.to_pylist():
            merger.add(row)
    columns = [sql_names.EID, *split.groups]
    for aggregate in split.aggregates:
        columns.extend(aggregate.part_columns)
    columns.extend(squares)
    schema = pa.schema([accumulator.schema.field(name) for name in columns])
    return merger.to_table(_with_sketch_lists(split, schema))


def _with_sketch_lists(split: Split, schema: pa.Schema) -> pa.Schema:
    """The schema of merged partial answers, in which sketches are collected in lists."""
    for aggregate in split.aggregates:
        column = aggregate.part_columns[0]
        index = schema.get_field_index(column)
        if aggregate.kind in SKETCH_KINDS and not pa.types.is_list(schema.field(index).type):
            schema = schema.set(index, pa.field(column, pa.list_(pa.binary())))
    return schema


# Final values


def aggregate_values(
    split: Split, accumulator: pa.Table | None, event: str, types: Mapping[str, str]
) -> pa.Table | None:
    """The table that `merge` of a split query reads, for one event; None: it has no rows.

    Its columns are `_eid`, groups and values of aggregates; or those of plain rows. A value that is
    computed from sketches is the list of these. Without groups there is always a row.
    `types`: Spark's types by column, as far as known; see `Split.type_probe`.
    """
    if accumulator is None or not len(accumulator):
        if not split.is_global_aggregate:
            return None
        return _empty_values(split, event, types)
    if split.selects_rows:
        return accumulator
    if split.top is not None:
        return frequent_values(accumulator, split.top)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name in (sql_names.EID, *split.groups):
        columns[name] = accumulator[name]
    for aggregate in split.aggregates:
        value_type = _declared_type(aggregate, types) or _inferred_type(aggregate, accumulator)
        parts = [accumulator[column].to_pylist() for column in aggregate.part_columns]
        values = [final_value(aggregate, row, value_type) for row in zip(*parts, strict=True)]
        columns[aggregate.value_column] = pa.array(values, value_type)
    return pa.table(columns)


def _empty_values(split: Split, event: str, types: Mapping[str, str]) -> pa.Table:
    """Aggregates over no rows: counts are 0, lists are empty, other values are NULL."""
    columns = {sql_names.EID: pa.array([event])}
    for aggregate in split.aggregates:
        value_type = _declared_type(aggregate, types)
        parts = (None,) * len(aggregate.part_columns)
        value = final_value(aggregate, parts, value_type)
        columns[aggregate.value_column] = pa.array([value], value_type)
    return pa.table(columns)


def _declared_type(aggregate: SplitAggregate, types: Mapping[str, str]) -> pa.DataType | None:
    if aggregate.kind in SKETCH_KINDS:
        return pa.list_(pa.binary())
    if aggregate.kind in ("count", "count_distinct"):
        return pa.int64()
    if aggregate.value_column not in types:
        return None
    return arrow_type(types[aggregate.value_column])


def _inferred_type(aggregate: SplitAggregate, accumulator: pa.Table) -> pa.DataType:
    """The type of a value, from the type of its first part."""
    part_type = accumulator.schema.field(aggregate.part_columns[0]).type
    if aggregate.kind in _PART_TYPED_KINDS:
        return part_type
    if aggregate.kind == "sum_distinct":
        value_type = part_type.value_type
        if pa.types.is_floating(value_type):
            return pa.float64()
        if pa.types.is_decimal(value_type):
            return value_type
        return pa.int64()
    if aggregate.returns_array:
        return pa.list_(pa.float64())
    return pa.float64()
