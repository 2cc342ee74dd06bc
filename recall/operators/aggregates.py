"""Partial answers of many groups as tables, merged piece by piece; how large they may become. Pure."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from recall.operators.arrow_types import arrow_type
from recall.operators.kinds import MERGE_FUNCTIONS, Parts, final_value, group_key
from recall.operators.moments import moment_columns, read_sample, with_moments, with_sample
from recall.query.split import LIST_KINDS, SKETCH_KINDS, Split, SplitAggregate

# What a recall of one event may hold: rows (groups) of its partial answer, values in these (all that DISTINCT or a
# percentile must keep), bytes of sketches.
MAX_ROWS, MAX_VALUES, MAX_SKETCH_BYTES = 100_000, 200_000, 32 << 20
_EID = "_eid"
_ALTERNATIVES = {
    "count_distinct": "use approx_count_distinct",
    "percentile": "use approx_percentile",
}


class LimitExceeded(Exception):
    """A recall holds more than it may. More of history can only make it worse."""


def merge_tables(
    split: Split,
    accumulator: pa.Table | None,
    partial: pa.Table | None,
    piece_seconds: float | None = None,
) -> pa.Table | None:
    """Two tables of partial answers (`_eid`, groups, parts) as one, a row for each event and group.

    Rows of a query without groups and aggregates are kept side by side: its `merge` cuts them. `length`: of the piece
    that `more` comes from (None: nothing was found there), in seconds, where estimates are wanted. Raises `Exceeded`.
    """
    sample = read_sample(accumulator)
    if piece_seconds is not None:
        sample = sample.add_piece(piece_seconds)
        partial = None if partial is None else with_moments(split, partial, piece_seconds)
    if accumulator is None or not accumulator.num_columns:
        merged = partial
    elif partial is None:
        merged = accumulator
    elif split.selects_rows:
        merged = pa.concat_tables([accumulator, partial.cast(accumulator.schema)])
    else:
        merged = _merge_rows(split, accumulator, partial)
    if merged is not None:
        check_limits(split, merged)
    return (
        merged
        if piece_seconds is None
        else with_sample(pa.table({}) if merged is None else merged, sample)
    )


def _merge_rows(split: Split, held: pa.Table, more: pa.Table) -> pa.Table:
    moments = [
        name
        for name in moment_columns(split)
        if name in held.column_names and name in more.column_names
    ]
    found: dict[tuple[Any, ...], list[Parts]] = {}
    for table in (held, more):
        for row in table.to_pylist():
            key = tuple(group_key(row[name]) for name in (_EID, *split.groups))
            mine = found.get(key)
            theirs = [
                tuple(row[part] for part in aggregate.part_columns)
                for aggregate in split.aggregates
            ]
            sums = [row[name] for name in moments]
            if mine is None:
                found[key] = [
                    (row[_EID], *(row[name] for name in split.groups)),
                    *theirs,
                    tuple(sums),
                ]
            else:
                pairs = zip(split.aggregates, mine[1:-1], theirs, strict=True)
                both = tuple(a + b for a, b in zip(mine[-1], sums, strict=True))
                mine[1:] = [
                    *(MERGE_FUNCTIONS[aggregate.kind](a, b) for aggregate, a, b in pairs),
                    both,
                ]
    parts = [part for aggregate in split.aggregates for part in aggregate.part_columns]
    names = [_EID, *split.groups, *parts, *moments]
    schema = _accumulator_schema(split, pa.schema([held.schema.field(name) for name in names]))
    rows = [
        dict(zip(names, (value for part in one for value in part), strict=True))
        for one in found.values()
    ]
    for row in rows:
        for aggregate in split.aggregates:
            if aggregate.kind in SKETCH_KINDS and isinstance(row[aggregate.part_columns[0]], bytes):
                row[aggregate.part_columns[0]] = [row[aggregate.part_columns[0]]]
    return pa.Table.from_pylist(rows, schema=schema)


def _accumulator_schema(split: Split, schema: pa.Schema) -> pa.Schema:
    """The columns of what is held: sketches are kept side by side."""
    for aggregate in split.aggregates:
        place = schema.get_field_index(aggregate.part_columns[0])
        if aggregate.kind in SKETCH_KINDS and not pa.types.is_list(schema.field(place).type):
            schema = schema.set(place, pa.field(aggregate.part_columns[0], pa.list_(pa.binary())))
    return schema


def check_limits(split: Split, accumulator: pa.Table) -> None:
    """Raises `Exceeded` for a partial answer that is too large to be held."""
    if len(accumulator) > MAX_ROWS:
        what = "rows" if split.selects_rows else "groups"
        raise LimitExceeded(
            f"its answer has more than {MAX_ROWS:,} {what}: the limit of a recall; narrow it with WHERE"
        )
    for aggregate in split.aggregates:
        column = accumulator[aggregate.part_columns[0]]
        if (
            aggregate.kind in LIST_KINDS
            and (pc.sum(pc.list_value_length(column)).as_py() or 0) > MAX_VALUES
        ):
            hint = _ALTERNATIVES.get(aggregate.kind, "narrow it with WHERE")
            raise LimitExceeded(
                f"{aggregate.text} keeps more than {MAX_VALUES:,} values: the limit of a recall; {hint}"
            )
        if aggregate.kind in SKETCH_KINDS and column.nbytes > MAX_SKETCH_BYTES:
            raise LimitExceeded(
                f"{aggregate.text} keeps more than {MAX_SKETCH_BYTES >> 20} MiB of sketches; use fewer groups"
            )


def aggregate_values(
    split: Split, accumulator: pa.Table | None, event: str, types: Mapping[str, str]
) -> pa.Table | None:
    """The table that `merge` of a split reads, for one event: `_eid`, groups and values of aggregates; or plain rows.

    Without groups there is a row also where nothing was found. None: there is no row. `types`: see `Split.typing`.
    A value that is read off sketches is a list of these.
    """
    if accumulator is None or not len(accumulator):
        return _empty_values(split, event, types) if split.is_global_aggregate else None
    if split.selects_rows:
        return accumulator
    columns: dict[str, pa.ChunkedArray | pa.Array] = {
        name: accumulator[name] for name in (_EID, *split.groups)
    }
    for aggregate in split.aggregates:
        kind = _declared_type(aggregate, types) or _inferred_type(aggregate, accumulator)
        parts = [accumulator[part].to_pylist() for part in aggregate.part_columns]
        found = [final_value(aggregate, row, kind) for row in zip(*parts, strict=True)]
        columns[aggregate.value_column] = pa.array(found, kind)
    return pa.table(columns)


def _empty_values(split: Split, event: str, types: Mapping[str, str]) -> pa.Table:
    """Aggregates over no rows: counts are 0, lists empty, the others NULL."""
    columns = {_EID: pa.array([event])}
    for aggregate in split.aggregates:
        kind = _declared_type(aggregate, types)
        nothing = final_value(aggregate, (None,) * len(aggregate.part_columns), kind)
        columns[aggregate.value_column] = pa.array([nothing], kind)
    return pa.table(columns)


def _declared_type(aggregate: SplitAggregate, types: Mapping[str, str]) -> pa.DataType | None:
    if aggregate.kind in SKETCH_KINDS:
        return pa.list_(pa.binary())
    if aggregate.kind in ("count", "count_distinct"):
        return pa.int64()
    return arrow_type(types[aggregate.value_column]) if aggregate.value_column in types else None


def _inferred_type(aggregate: SplitAggregate, held: pa.Table) -> pa.DataType:
    """The type of a value by that of its parts, where nobody has said."""
    part = held.schema.field(aggregate.part_columns[0]).type
    if aggregate.kind in ("sum", "min", "max", "min_by", "max_by", "bit_and", "bit_or", "bit_xor"):
        return part
    if aggregate.kind in ("collect_list", "collect_set"):
        return part
    if aggregate.kind == "sum_distinct":
        item = part.value_type
        return (
            pa.float64()
            if pa.types.is_floating(item)
            else item
            if pa.types.is_decimal(item)
            else pa.int64()
        )
    if aggregate.returns_array:
        return pa.list_(pa.float64())
    return pa.float64()
