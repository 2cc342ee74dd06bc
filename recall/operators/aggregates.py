"""Partial answers of many groups as tables, merged piece by piece; how large they may become. Pure."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from recall.operators.kinds import MERGE, Parts, same, value_of
from recall.operators.moments import moment_columns, sample_of, with_moments, with_sample
from recall.operators.types import arrow_type
from recall.query.split import LISTS, SKETCHES, Aggregate, Split

# What a recall of one event may hold: rows (groups) of its partial answer, values in these (all that DISTINCT or a
# percentile must keep), bytes of sketches.
ROWS, VALUES, SKETCH_BYTES = 100_000, 200_000, 32 << 20
_EID = "_eid"
_INSTEAD = {"count_distinct": "use approx_count_distinct", "percentile": "use approx_percentile"}


class Exceeded(Exception):
    """A recall holds more than it may. More of history can only make it worse."""


def merge(split: Split, held: pa.Table | None, more: pa.Table | None, length: float | None = None) -> pa.Table | None:
    """Two tables of partial answers (`_eid`, groups, parts) as one, a row for each event and group.

    Rows of a query without groups and aggregates are kept side by side: its `merge` cuts them. `length`: of the piece
    that `more` comes from (None: nothing was found there), in seconds, where estimates are wanted. Raises `Exceeded`.
    """
    sample = sample_of(held)
    if length is not None:
        sample = sample.and_one(length)
        more = None if more is None else with_moments(split, more, length)
    if held is None or not held.num_columns:
        merged = more
    elif more is None:
        merged = held
    elif split.rows:
        merged = pa.concat_tables([held, more.cast(held.schema)])
    else:
        merged = _merged(split, held, more)
    if merged is not None:
        check(split, merged)
    return merged if length is None else with_sample(pa.table({}) if merged is None else merged, sample)


def _merged(split: Split, held: pa.Table, more: pa.Table) -> pa.Table:
    moments = [name for name in moment_columns(split) if name in held.column_names and name in more.column_names]
    found: dict[tuple[Any, ...], list[Parts]] = {}
    for table in (held, more):
        for row in table.to_pylist():
            key = tuple(same(row[name]) for name in (_EID, *split.groups))
            mine = found.get(key)
            theirs = [tuple(row[part] for part in aggregate.parts) for aggregate in split.aggregates]
            sums = [row[name] for name in moments]
            if mine is None:
                found[key] = [(row[_EID], *(row[name] for name in split.groups)), *theirs, tuple(sums)]
            else:
                pairs = zip(split.aggregates, mine[1:-1], theirs, strict=True)
                both = tuple(a + b for a, b in zip(mine[-1], sums, strict=True))
                mine[1:] = [*(MERGE[aggregate.kind](a, b) for aggregate, a, b in pairs), both]
    parts = [part for aggregate in split.aggregates for part in aggregate.parts]
    names = [_EID, *split.groups, *parts, *moments]
    schema = _holding(split, pa.schema([held.schema.field(name) for name in names]))
    rows = [dict(zip(names, (value for part in one for value in part), strict=True)) for one in found.values()]
    for row in rows:
        for aggregate in split.aggregates:
            if aggregate.kind in SKETCHES and isinstance(row[aggregate.parts[0]], bytes):
                row[aggregate.parts[0]] = [row[aggregate.parts[0]]]
    return pa.Table.from_pylist(rows, schema=schema)


def _holding(split: Split, schema: pa.Schema) -> pa.Schema:
    """The columns of what is held: sketches are kept side by side."""
    for aggregate in split.aggregates:
        place = schema.get_field_index(aggregate.parts[0])
        if aggregate.kind in SKETCHES and not pa.types.is_list(schema.field(place).type):
            schema = schema.set(place, pa.field(aggregate.parts[0], pa.list_(pa.binary())))
    return schema


def check(split: Split, held: pa.Table) -> None:
    """Raises `Exceeded` for a partial answer that is too large to be held."""
    if len(held) > ROWS:
        what = "rows" if split.rows else "groups"
        raise Exceeded(f"its answer has more than {ROWS:,} {what}: the limit of a recall; narrow it with WHERE")
    for aggregate in split.aggregates:
        column = held[aggregate.parts[0]]
        if aggregate.kind in LISTS and (pc.sum(pc.list_value_length(column)).as_py() or 0) > VALUES:
            hint = _INSTEAD.get(aggregate.kind, "narrow it with WHERE")
            raise Exceeded(f"{aggregate.text} keeps more than {VALUES:,} values: the limit of a recall; {hint}")
        if aggregate.kind in SKETCHES and column.nbytes > SKETCH_BYTES:
            raise Exceeded(f"{aggregate.text} keeps more than {SKETCH_BYTES >> 20} MiB of sketches; use fewer groups")


def values(split: Split, held: pa.Table | None, event: str, types: Mapping[str, str]) -> pa.Table | None:
    """The table that `merge` of a split reads, for one event: `_eid`, groups and values of aggregates; or plain rows.

    Without groups there is a row also where nothing was found. None: there is no row. `types`: see `Split.typing`.
    A value that is read off sketches is a list of these.
    """
    if held is None or not len(held):
        return _nothing(split, event, types) if split.whole else None
    if split.rows:
        return held
    columns: dict[str, pa.ChunkedArray | pa.Array] = {name: held[name] for name in (_EID, *split.groups)}
    for aggregate in split.aggregates:
        kind = _type(aggregate, types) or _found(aggregate, held)
        parts = [held[part].to_pylist() for part in aggregate.parts]
        found = [value_of(aggregate, row, kind) for row in zip(*parts, strict=True)]
        columns[aggregate.value] = pa.array(found, kind)
    return pa.table(columns)


def _nothing(split: Split, event: str, types: Mapping[str, str]) -> pa.Table:
    """Aggregates over no rows: counts are 0, lists empty, the others NULL."""
    columns = {_EID: pa.array([event])}
    for aggregate in split.aggregates:
        kind = _type(aggregate, types)
        nothing = value_of(aggregate, (None,) * len(aggregate.parts), kind)
        columns[aggregate.value] = pa.array([nothing], kind)
    return pa.table(columns)


def _type(aggregate: Aggregate, types: Mapping[str, str]) -> pa.DataType | None:
    if aggregate.kind in SKETCHES:
        return pa.list_(pa.binary())
    if aggregate.kind in ("count", "count_distinct"):
        return pa.int64()
    return arrow_type(types[aggregate.value]) if aggregate.value in types else None


def _found(aggregate: Aggregate, held: pa.Table) -> pa.DataType:
    """The type of a value by that of its parts, where nobody has said."""
    part = held.schema.field(aggregate.parts[0]).type
    if aggregate.kind in ("sum", "min", "max", "min_by", "max_by", "bit_and", "bit_or", "bit_xor"):
        return part
    if aggregate.kind in ("collect_list", "collect_set"):
        return part
    if aggregate.kind == "sum_distinct":
        item = part.value_type
        return pa.float64() if pa.types.is_floating(item) else item if pa.types.is_decimal(item) else pa.int64()
    if aggregate.several:
        return pa.list_(pa.float64())
    return pa.float64()
